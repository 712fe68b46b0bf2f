"""What all commands of the service share."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from glcb.service.storage import Storage


@contextmanager
def service() -> Iterator[None]:
    """Tell whoever lacks the packages of the service how to get them."""
    from glcb._errors import INSTALL_SERVICE, MissingExtra

    try:
        yield
    except ModuleNotFoundError as error:
        raise MissingExtra(f"the service needs {error.name}: {INSTALL_SERVICE}") from error


def storage(data: str | None, database: str | None, config: Path | None) -> "Storage":
    """Open the database that flags, environment or file name."""
    with service():
        from glcb.service.opening import open_storage
        from glcb.service.settings import load

    return open_storage(load({"data": data, "database": database}, config))
