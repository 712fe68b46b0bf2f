"""Helpers shared by the commands: lists in flags, and access to the database of the service."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from glcb.service.config import ServiceSettings
    from glcb.service.storage.database import Database

DataOption = Annotated[
    str | None,
    typer.Option(metavar="FILE", help="SQLite database file.", show_default="glcb.db"),
]
DatabaseOption = Annotated[
    str | None,
    typer.Option(metavar="URL", help="PostgreSQL database to use instead of a file.", show_default=False),
]
ConfigOption = Annotated[
    Path | None, typer.Option(metavar="FILE", help="TOML file with settings.", show_default=False)
]


def split(names: str) -> tuple[str, ...]:
    """Split a comma-separated list.

    >>> split("wheel, adult,")
    ('wheel', 'adult')
    """
    return tuple(name.strip() for name in names.split(",") if name.strip())


@contextmanager
def requires_service() -> Iterator[None]:
    """Turn a failed import of the service into an error that says what to install."""
    from glcb._errors import INSTALL_SERVICE, MissingExtra

    try:
        yield
    except ModuleNotFoundError as error:
        raise MissingExtra(f"the service needs {error.name}: {INSTALL_SERVICE}") from error


def service_settings(data: str | None, database: str | None, config: Path | None) -> "ServiceSettings":
    """Load the settings of the service from flags, environment and file."""
    with requires_service():
        from glcb.service.config import load

    return load({"data": data, "database": database}, config)


def existing_database(data: str | None, database: str | None, config: Path | None) -> "Database":
    """Open the database of the service; raise InvalidSettings if it does not exist."""
    with requires_service():
        from glcb.service.storage.database import open_existing_database

    return open_existing_database(service_settings(data, database, config))
