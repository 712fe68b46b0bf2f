"""``glcb workers``: the processes of a service with several, and what they own."""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from glcb.client import Client, WorkerList

app = typer.Typer(
    help="List, restart and drain the workers of a service, and move experiments.", no_args_is_help=True
)

Url = Annotated[str, typer.Option(metavar="URL", envvar="GLCB_URL", help="Address of the service.")]
ApiKey = Annotated[
    str | None,
    typer.Option(
        metavar="KEY",
        envvar="GLCB_API_KEY",
        help="API key: read to list, admin for everything else.",
        show_default=False,
    ),
]
Timeout = Annotated[
    float, typer.Option(metavar="SECONDS", help="How long to wait until it is done; 0 not to wait.")
]
Name = Annotated[str, typer.Argument(metavar="WORKER", help="Name of a worker.", show_default=False)]
Experiment = Annotated[
    str, typer.Argument(metavar="EXPERIMENT", help="Name of an experiment.", show_default=False)
]

_LOCAL = "http://127.0.0.1:8000"
_POLL_SECONDS = 0.5


@app.command("list")
def list_workers(url: Url = _LOCAL, api_key: ApiKey = None) -> None:
    """List the workers."""
    with _client(url, api_key) as client:
        found = client.workers()
    if not found.workers:
        typer.echo("this service is one process")
    for worker in found.workers:
        notes = [("draining", worker.draining), ("to be restarted", worker.restarting)]
        parts = [
            f"{worker.name}  {worker.state}  {worker.host}  process {worker.process}",
            f"partitions: {worker.partitions}",
            f"experiments: {worker.experiments}, {worker.loaded} loaded",
            *(note for note, applies in notes if applies),
            *([] if worker.trouble is None else [worker.trouble]),
        ]
        typer.echo("  ".join(parts))
    for partition, name in sorted(found.pins.items(), key=lambda pair: int(pair[0])):
        typer.echo(f"partition {partition} was moved to {name}")


@app.command()
def move(
    experiment: Experiment,
    worker: Annotated[
        str | None,
        typer.Argument(metavar="WORKER", help="Name of a worker.", show_default="any"),
    ] = None,
    url: Url = _LOCAL,
    api_key: ApiKey = None,
) -> None:
    """Move an experiment to a worker, where it stays. No request is rejected because of that.

    All other experiments of its partition move, too. Without a worker, the experiment can be anywhere again.
    """
    with _client(url, api_key) as client:
        client.move_experiment(experiment, worker)


@app.command()
def drain(worker: Name, url: Url = _LOCAL, api_key: ApiKey = None, timeout: Timeout = 300.0) -> None:
    """Move all experiments of a worker to others, without rejecting a request. None come back to it."""
    with _client(url, api_key) as client:
        client.drain_worker(worker)

        def is_empty(found: "WorkerList") -> bool:
            return all(one.partitions == 0 for one in found.workers if one.name == worker)

        _wait(client, timeout, is_empty, f"not all experiments have left {worker}")
    if timeout:
        typer.echo(f"{worker} has no experiments")


@app.command()
def undrain(worker: Name, url: Url = _LOCAL, api_key: ApiKey = None) -> None:
    """Let a worker that was drained have experiments again."""
    with _client(url, api_key) as client:
        client.drain_worker(worker, draining=False)


@app.command()
def restart(url: Url = _LOCAL, api_key: ApiKey = None, timeout: Timeout = 600.0) -> None:
    """Restart all workers, one after the other, without rejecting a request.

    The new processes read the settings file again, and use the version of glcb that is installed.
    """
    with _client(url, api_key) as client:
        count = len(client.restart_workers().workers)

        def are_new(found: "WorkerList") -> bool:
            ready = [one for one in found.workers if one.state == "ready" and not one.restarting]
            return len(ready) == len(found.workers) >= count

        _wait(client, timeout, are_new, "not all workers have been restarted")
    if timeout:
        typer.echo("all workers have been restarted")


def _client(url: str, api_key: str | None) -> "Client":
    from glcb.client import Client

    return Client(url, api_key)


def _wait(client: "Client", timeout: float, is_done: "Callable[[WorkerList], bool]", problem: str) -> None:
    """Wait until it is done; raise ServiceError if that takes too long."""
    from glcb._errors import ServiceError

    deadline = time.monotonic() + timeout
    while timeout and not is_done(client.workers()):
        if time.monotonic() > deadline:
            raise ServiceError(
                f"{problem} after {timeout:g} seconds, and the service goes on: see `glcb workers list`"
            )
        time.sleep(_POLL_SECONDS)
