"""What all commands of the service share."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from glcb.service.config import ServiceSettings
    from glcb.service.storage.storage import Storage


@contextmanager
def service() -> Iterator[None]:
    """Tell whoever lacks the packages of the service how to get them."""
    from glcb._errors import INSTALL_SERVICE, MissingExtra

    try:
        yield
    except ModuleNotFoundError as error:
        raise MissingExtra(f"the service needs {error.name}: {INSTALL_SERVICE}") from error


def settings(data: str | None, database: str | None, config: Path | None) -> "ServiceSettings":
    """Return the settings that flags, environment and file lead to."""
    with service():
        from glcb.service.config import load

    return load({"data": data, "database": database}, config)


def storage(data: str | None, database: str | None, config: Path | None) -> "Storage":
    """Open the database that flags, environment or file name, if it is there."""
    with service():
        from glcb.service.storage.opening import open_existing

    return open_existing(settings(data, database, config))
