"""From settings to a database."""

from pathlib import Path

from sqlalchemy import URL

from glcb._errors import InvalidSettings
from glcb.service.config import ServiceSettings
from glcb.service.storage.database import checked_url, sqlite_url
from glcb.service.storage.storage import Storage


def open_storage(settings: ServiceSettings) -> Storage:
    """Open the database that the settings name; a file that is not there is made."""
    if settings.database is None:
        folder = Path(settings.data).absolute().parent
        if not folder.is_dir():
            raise InvalidSettings(f"there is no folder {folder} for the data: make it first")
    return Storage(_url(settings))


def open_existing(settings: ServiceSettings) -> Storage:
    """Open the database that the settings name; raise InvalidSettings where there is none."""
    if is_missing(settings):
        raise InvalidSettings(
            f"there is no database {place(settings)}: go to its folder, or name it with --data FILE or "
            "--database URL"
        )
    return open_storage(settings)


def is_missing(settings: ServiceSettings) -> bool:
    """Return whether the database is a file that is not there."""
    file = _file(_url(settings))
    return file is not None and not file.exists()


def place(settings: ServiceSettings) -> str:
    """Return where the database is, without its password."""
    url = _url(settings)
    return str(_file(url) or url.render_as_string(hide_password=True))


def _url(settings: ServiceSettings) -> URL:
    return checked_url(sqlite_url(settings.data) if settings.database is None else settings.database)


def _file(url: URL) -> Path | None:
    return Path(str(url.database)).absolute() if url.get_backend_name() == "sqlite" else None
