"""``glcb keys``: API keys for the service."""

from typing import Annotated

import typer

from glcb.cli._options import (
    ConfigOption,
    DatabaseOption,
    DataOption,
    existing_database,
    requires_service,
    service_settings,
    split,
)

app = typer.Typer(help="Create, list and remove API keys for the service.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the API key.", show_default=False)]


@app.command()
def add(
    name: Name,
    role: Annotated[
        str,
        typer.Option(
            metavar="ROLE",
            help="publish (single decisions and rewards in one experiment, for web pages), decide (decisions "
            "and rewards), read (statistics), edit (also changes of experiments) or admin (everything).",
            show_default=False,
        ),
    ],
    experiments: Annotated[
        str,
        typer.Option(
            metavar="NAMES",
            help="Experiments the API key is limited to, separated by commas.",
            show_default="all",
        ),
    ] = "",
    data: DataOption = None,
    database: DatabaseOption = None,
    config: ConfigOption = None,
) -> None:
    """Create an API key and print it.

    The key is shown only once; the database stores its digest. The database is created if it does not exist.
    """
    with requires_service():
        from glcb.service.access import api_keys
        from glcb.service.storage import connection
        from glcb.service.storage import database as databases

    settings = service_settings(data, database, config)
    bound = split(experiments)
    api_keys.check_key(name, role, bound)
    new = connection.database_is_missing(settings)
    typer.echo(api_keys.add_key(databases.open_database(settings), name, role, bound))
    kind = "new database" if new else "database"
    typer.echo(f"created for the {kind} {connection.database_location(settings)}", err=True)


@app.command("list")
def list_keys(data: DataOption = None, database: DatabaseOption = None, config: ConfigOption = None) -> None:
    """List the API keys: name, role, creation time and experiments."""
    opened = existing_database(data, database, config)
    from glcb.service.access import api_keys
    from glcb.service.process.clock import timestamp

    for key in api_keys.list_keys(opened):
        experiments = "all experiments" if key.experiments is None else ", ".join(key.experiments)
        typer.echo(f"{key.name}  {key.role}  {timestamp(key.created)}  {experiments}")


@app.command()
def remove(
    name: Name, data: DataOption = None, database: DatabaseOption = None, config: ConfigOption = None
) -> None:
    """Remove an API key. A running service stops accepting it within two seconds."""
    opened = existing_database(data, database, config)
    from glcb.service.access import api_keys

    api_keys.remove_key(opened, name)
