"""``glcb shards``: the processes of a service with shards, and their nodes."""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from glcb.client import Client, ShardList

app = typer.Typer(
    help="List, restart and move the processes of a service with several.", no_args_is_help=True
)

Url = Annotated[
    str, typer.Option(metavar="URL", envvar="GLCB_URL", help="Address of the service or of a front end.")
]
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
Node = Annotated[
    str,
    typer.Argument(
        metavar="NODE", help="Id of a node, the beginning of it, its address or host.", show_default=False
    ),
]

_LOCAL = "http://127.0.0.1:8000"
_POLL_SECONDS = 0.5


@app.command("list")
def list_shards(url: Url = _LOCAL, api_key: ApiKey = None) -> None:
    """List shards and nodes."""
    with _client(url, api_key) as client:
        found = client.shards()
    if not found.shards:
        typer.echo("this service is one process without shards")
        return
    hosts = {node.id: node.host for node in found.nodes}
    for shard in found.shards:
        place = "–" if shard.node is None else f"{hosts.get(shard.node, '?')} {shard.node[:8]}"
        trouble = "" if shard.trouble is None else f"  {shard.trouble}"
        typer.echo(
            f"shard {shard.number}  {shard.state}  {place}  process {shard.process or '–'}  "
            f"experiments: {shard.experiments}, {shard.loaded} loaded{trouble}"
        )
    for node in found.nodes:
        state = "  draining" if node.draining else ""
        place = f"{node.host}  {node.address}"
        typer.echo(f"node {node.id[:8]}  {place}  {node.cpus:g} CPUs  shards: {node.shards}{state}")


@app.command()
def drain(node: Node, url: Url = _LOCAL, api_key: ApiKey = None, timeout: Timeout = 300.0) -> None:
    """Move all shards of a node to other nodes, without refusing a request. None come back to it."""
    with _client(url, api_key) as client:
        number = client.drain_node(node).id

        def is_empty(found: "ShardList") -> bool:
            return all(shard.state == "ready" and shard.node != number for shard in found.shards)

        _wait(client, timeout, is_empty, f"not all shards answer on other nodes than {number[:8]}")
    if timeout:
        typer.echo(f"the node {number[:8]} has no shards")


@app.command()
def undrain(node: Node, url: Url = _LOCAL, api_key: ApiKey = None) -> None:
    """Let a node that was drained have shards again."""
    with _client(url, api_key) as client:
        client.drain_node(node, draining=False)


@app.command()
def restart(url: Url = _LOCAL, api_key: ApiKey = None, timeout: Timeout = 600.0) -> None:
    """Restart all shards, one after the other, without refusing a request.

    The new processes have the settings of the front end that answers at the URL, and use the version of glcb
    that is installed on their nodes.
    """
    with _client(url, api_key) as client:
        wanted = {shard.number: shard.wanted for shard in client.restart_shards().shards}

        def are_new(found: "ShardList") -> bool:
            return all(
                shard.state == "ready" and shard.generation >= wanted[shard.number] for shard in found.shards
            )

        _wait(client, timeout, are_new, "not all shards have been restarted")
    if timeout:
        typer.echo("all shards have been restarted")


def _client(url: str, api_key: str | None) -> "Client":
    from glcb.client import Client

    return Client(url, api_key)


def _wait(client: "Client", timeout: float, is_done: "Callable[[ShardList], bool]", problem: str) -> None:
    """Wait until it is done; raise ServiceError if that takes too long."""
    from glcb._errors import ServiceError

    deadline = time.monotonic() + timeout
    while timeout and not is_done(client.shards()):
        if time.monotonic() > deadline:
            raise ServiceError(
                f"{problem} after {timeout:g} seconds, and the service goes on: see `glcb shards list`"
            )
        time.sleep(_POLL_SECONDS)
