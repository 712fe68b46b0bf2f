"""``glcb verify``: is what the service remembers what has happened?"""

import typer

from glcb.cli.serve import Config, Data, Database


def verify(data: Data = None, database: Database = None, config: Config = None) -> None:
    """Replay all events of the service and compare with every outcome and snapshot; exit 1 if they differ."""
    from glcb.cli._service import storage

    opened = storage(data, database, config)
    from glcb.service.audit import verify as replay

    well = True
    for finding in replay(opened):
        typer.echo(finding.line)
        well = well and finding.ok
    if not well:
        raise typer.Exit(1)
