"""From settings to a database."""

from pathlib import Path

from glcb._errors import InvalidSettings
from glcb.service.database import sqlite_url
from glcb.service.settings import ServiceSettings
from glcb.service.storage import Storage


def open_storage(settings: ServiceSettings) -> Storage:
    """Open the database that the settings name."""
    if settings.database is not None:
        return Storage(settings.database)
    folder = Path(settings.data).absolute().parent
    if not folder.is_dir():
        raise InvalidSettings(f"there is no folder {folder} for the data: make it first")
    return Storage(sqlite_url(settings.data))
