"""``glcb keys``: who may use the service."""

from typing import Annotated

import typer

from glcb.cli.serve import Config, Data, Database

app = typer.Typer(help="Make, list and remove the keys of the service.", no_args_is_help=True)


@app.command()
def add(
    name: Annotated[str, typer.Argument(help="What the key is called.")],
    role: Annotated[str, typer.Option(help="decide (and reward), read or admin.")],
    experiment: Annotated[
        list[str] | None, typer.Option(help="Only for this experiment; can be repeated.", show_default=False)
    ] = None,
    data: Data = None,
    database: Database = None,
    config: Config = None,
) -> None:
    """Make a key. It is shown once, and kept as a digest only; a file of data that is not there is made."""
    from glcb.cli._service import service, settings

    with service():
        from glcb.service import auth as keys
        from glcb.service.storage import opening

    given = settings(data, database, config)
    keys.check(name, role)
    new = opening.is_missing(given)
    typer.echo(keys.add(opening.open_storage(given), name, role, experiment or ()))
    typer.echo(f"for the {'new ' if new else ''}database {opening.place(given)}", err=True)


@app.command("list")
def list_keys(data: Data = None, database: Database = None, config: Config = None) -> None:
    """List names and roles of all keys."""
    from glcb.cli._service import storage

    opened = storage(data, database, config)
    from glcb.service import auth as keys
    from glcb.service.views import timestamp

    for key in keys.listed(opened):
        bound = "all experiments" if key.experiments is None else ", ".join(key.experiments)
        typer.echo(f"{key.name}  {key.role}  {timestamp(key.created)}  {bound}")


@app.command()
def remove(
    name: Annotated[str, typer.Argument(help="What the key is called.")],
    data: Data = None,
    database: Database = None,
    config: Config = None,
) -> None:
    """Remove a key: whoever has it is refused within a second or two."""
    from glcb.cli._service import storage

    opened = storage(data, database, config)
    from glcb.service import auth as keys

    keys.remove(opened, name)
