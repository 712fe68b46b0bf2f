"""``glcb serve``: run the decision service."""

from typing import TYPE_CHECKING, Annotated

import typer

from glcb.cli._options import ConfigOption, DatabaseOption, DataOption, requires_service

if TYPE_CHECKING:
    from glcb.service.config import ServiceSettings


def serve(
    host: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Address to listen on.", show_default="127.0.0.1")
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(metavar="PORT", help="Port to listen on; 0 selects a free port.", show_default="8000"),
    ] = None,
    data: DataOption = None,
    database: DatabaseOption = None,
    config: ConfigOption = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="Override a setting, e.g. `--set max_arms=50`. Repeatable.",
            show_default=False,
        ),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Processes among which the experiments are divided; with the executor ray, those on each "
            "node. More than one needs PostgreSQL.",
            show_default="1",
        ),
    ] = None,
    executor: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="What starts the workers: local for this process, or ray for a Ray cluster.",
            show_default="local",
        ),
    ] = None,
    address: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT",
            help="Address of the Ray cluster. By default, that of the environment variable RAY_ADDRESS.",
            show_default=False,
        ),
    ] = None,
    demo: Annotated[
        bool,
        typer.Option("--demo", help="Serve three simulated experiments from a temporary folder."),
    ] = False,
) -> None:
    """Serve decisions over HTTP. Every decision and reward is stored on disk before it is acknowledged.

    Every setting can also be set with an environment variable such as GLCB_SERVE_PORT, or in the TOML file.
    Flags take precedence over the environment, and the environment over the file.
    """
    with requires_service():
        from glcb.service.config import load

    flags = {
        "host": host,
        "port": port,
        "data": data,
        "database": database,
        "workers": workers,
        "executor": executor,
        "address": address,
    }

    def read() -> "ServiceSettings":
        return load(flags, config, pairs=settings or [])

    loaded = read()
    with requires_service():
        if demo:
            from glcb.service.demo import serve_demo

            serve_demo(loaded)
        elif loaded.executor == "ray":
            from glcb.service.workers.ray_executor import serve_on_ray

            serve_on_ray(loaded)
        elif loaded.workers > 1:
            from glcb.service.workers.parent import serve_workers

            serve_workers(loaded, read)
        else:
            from glcb.service.server import serve as run

            run(loaded)
