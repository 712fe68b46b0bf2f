"""``glcb audit``: check the event log of the service."""

import typer

from glcb.cli._options import ConfigOption, DatabaseOption, DataOption, existing_database


def audit(data: DataOption = None, database: DatabaseOption = None, config: ConfigOption = None) -> None:
    """Check the event log: its chain of digests, the high-water mark, every decision and every snapshot.

    Decisions are made again and compared with the record. On another processor, or with other versions of the
    libraries, their last digits may differ, and sometimes the arm; this is only reported. The service can
    keep running.

    Exits with status 1 if events or snapshots are missing, altered or unreadable; with status 2 if results
    differ on the processor and library versions that wrote them; and with status 3 if an experiment needs a
    library, or memory, that is not available here.
    """
    opened = existing_database(data, database, config)
    from glcb.service.engine.audit import DAMAGED, audit_database

    codes = set()
    for finding in audit_database(opened):
        typer.echo(finding.line)
        codes.add(finding.exit_code)
    if opened.marks is None or not opened.marks.path.exists():
        typer.echo("without a high-water mark, a loss of the newest events cannot be detected", err=True)
    if any(codes):
        raise typer.Exit(DAMAGED if DAMAGED in codes else max(codes))
