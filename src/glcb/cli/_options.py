"""Shared parts of commands: options, lists in flags, and access to the service database."""

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
    typer.Option(metavar="FILE", help="SQLite file with all data.", show_default="glcb.db"),
]
DatabaseOption = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        help="URL of a PostgreSQL database, used instead of the file.",
        show_default=False,
    ),
]
ConfigOption = Annotated[
    Path | None, typer.Option(metavar="FILE", help="TOML file with settings.", show_default=False)
]
AddressOption = Annotated[
    str | None,
    typer.Option(
        metavar="HOST:PORT", help="Address of the Ray cluster.", show_default="RAY_ADDRESS, or this machine"
    ),
]
JobsOption = Annotated[
    int | None,
    typer.Option(
        min=1,
        metavar="N",
        help="Number of processes; for `glcb evaluate`, with `--executor ray`.",
        show_default="one per core",
    ),
]
ContextColumn = Annotated[
    str,
    typer.Option(
        metavar="COLUMN", help="Column with contexts as JSON. Without it, all other columns are features."
    ),
]
ArmColumn = Annotated[str, typer.Option(metavar="COLUMN", help="Column with the chosen arm.")]
RewardColumn = Annotated[str, typer.Option(metavar="COLUMN", help="Column with the reward.")]
PropensityColumn = Annotated[
    str, typer.Option(metavar="COLUMN", help="Column with the propensity of the chosen arm.")
]
IgnoreColumns = Annotated[
    str,
    typer.Option(
        metavar="COLUMNS", help="Columns that are not features, separated by commas.", show_default=False
    ),
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
