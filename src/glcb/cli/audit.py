"""``glcb audit``: check the event log of the service."""

import typer

from glcb.cli._options import ConfigOption, DatabaseOption, DataOption, existing_database


def audit(data: DataOption = None, database: DatabaseOption = None, config: ConfigOption = None) -> None:
    """Replay the event log; compare it with its chain of digests, every snapshot and the high-water mark.

    Exits with status 1 if events are missing or altered, or if a recorded result or a snapshot differs. The
    service can keep running.
    """
    opened = existing_database(data, database, config)
    from glcb.service.audit import audit_database

    agrees = True
    for finding in audit_database(opened):
        typer.echo(finding.line)
        agrees = agrees and finding.ok
    if opened.marks is None or not opened.marks.path.exists():
        typer.echo("without a high-water mark, a loss of the newest events cannot be noticed", err=True)
    if not agrees:
        raise typer.Exit(1)
