"""Downloading data files. Nothing else in glcb ever does that.

What has arrived is kept beside the destination, with a note of where it came from: an interrupted
download goes on where it stopped, unless the server has another file by then. Only a complete and
genuine file gets its name.
"""

import http.client
import json
import shutil
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import cast

from glcb._errors import DataError, InvalidSettings
from glcb._version import __version__
from glcb.tasks.data.directory import data_directory
from glcb.tasks.data.verify import verify
from glcb.tasks.file_task import FileTask

BUCKET = "https://storage.googleapis.com/bandits_datasets/"
"""Where the authors of Deep Bayesian Bandits keep the files."""

_TIMEOUT = 30.0
_BLOCK = 1 << 16
_NOT_THERE = (403, 404, 410)  # the bucket says "forbidden" of what it does not have

Progress = Callable[[str, int, int | None], None]
"""Told again and again: the file's name, the bytes that are there, and how many there will be if known."""


def fetch(
    task: FileTask, *, base_url: str = BUCKET, progress: Progress = lambda *_: None, timeout: float = _TIMEOUT
) -> Path:
    """Download the file of ``task``, check it and return where it is. A mirror may have it compressed."""
    if not base_url.startswith(("https://", "http://")):
        raise InvalidSettings(f"base_url must start with https:// or http://, got {base_url!r}")
    folder = data_directory()
    with _disk(folder):
        folder.mkdir(parents=True, exist_ok=True)
    for file in task.files:
        for name in file.names:
            url = f"{base_url.rstrip('/')}/{name}"
            download = _Download(url, folder / f"{name}.part", progress, timeout)
            if download.run():
                try:
                    verify(task, file, download.part)
                except DataError as error:
                    download.forget()
                    raise DataError(f"{url} is not the right file, it was removed: {error}") from error
                download.part.replace(folder / name)
                download.forget()
                return folder / name
    names = " or ".join(file.name for file in task.files)
    raise DataError(f"{base_url} has no file {names}: name a mirror that has it with --base-url")


class _Download:
    """One file on its way."""

    def __init__(self, url: str, part: Path, progress: Progress, timeout: float) -> None:
        self.url = url
        self.part = part
        self._note = part.with_name(f"{part.name}.json")
        self._progress = progress
        self._timeout = timeout

    def run(self) -> bool:
        """Bring the rest of the file; return False if the server does not have it."""
        have, version = self._begun()
        try:
            with self._ask(have, version) as response:
                self._receive(response, have)
        except urllib.error.HTTPError as error:
            error.close()
            if error.code in _NOT_THERE:
                return False
            if error.code == http.client.REQUESTED_RANGE_NOT_SATISFIABLE and have:
                self.forget()
                return self.run()
            raise DataError(f"{self.url}: the server answered {error.code} {error.reason}") from error
        except (OSError, http.client.HTTPException) as error:
            raise DataError(
                f"{self.url}: {getattr(error, 'reason', error)}; check the connection and run the command "
                "again, it goes on where it stopped"
            ) from error
        return True

    def forget(self) -> None:
        """Remove what has arrived."""
        self.part.unlink(missing_ok=True)
        self._note.unlink(missing_ok=True)

    def _begun(self) -> tuple[int, str]:
        """Return how much has arrived earlier, and the server's name for the version it belongs to."""
        try:
            note = json.loads(self._note.read_text())
            url, version = note["url"], note["version"]
            have = self.part.stat().st_size
        except (OSError, ValueError, KeyError, TypeError):
            return 0, ""
        return (have, version) if url == self.url and version and isinstance(version, str) else (0, "")

    def _ask(self, have: int, version: str) -> http.client.HTTPResponse:
        headers = {"User-Agent": f"glcb/{__version__}"}
        if have:
            headers |= {"Range": f"bytes={have}-", "If-Range": version}
        request = urllib.request.Request(self.url, headers=headers)
        return cast("http.client.HTTPResponse", urllib.request.urlopen(request, timeout=self._timeout))

    def _receive(self, response: http.client.HTTPResponse, have: int) -> None:
        if response.status != http.client.PARTIAL_CONTENT:
            have = 0
        length = response.headers["Content-Length"]
        total = have + int(length) if length else None
        with _disk(self.part):
            self._check_room(total, have)
            version = response.headers["ETag"] or response.headers["Last-Modified"] or ""
            self._note.write_text(json.dumps({"url": self.url, "version": version}))
        with self._appending(have) as write:
            while block := response.read(_BLOCK):
                write(block)
                have += len(block)
                self._progress(self.part.stem, have, total)
        if total is not None and have != total:
            raise http.client.HTTPException(f"the connection broke after {have:,} of {total:,} bytes")

    @contextmanager
    def _appending(self, have: int) -> Iterator[Callable[[bytes], None]]:
        """Give a function that appends to what is there; its errors are those of the disk."""

        def write(block: bytes) -> None:
            with _disk(self.part):
                file.write(block)

        with _disk(self.part):
            file = self.part.open("ab" if have else "wb", buffering=0)
        with file:
            yield write

    def _check_room(self, total: int | None, have: int) -> None:
        free = shutil.disk_usage(self.part.parent).free
        if total is not None and total - have > free:
            raise DataError(
                f"{self.part.stem} needs {total - have:,} more bytes, but only {free:,} are free in "
                f"{self.part.parent}: make room, or set GLCB_DATA_DIR to another folder"
            )


@contextmanager
def _disk(path: Path) -> Iterator[None]:
    """Say of errors within that they are those of the disk, not of the network."""
    try:
        yield
    except OSError as error:
        raise DataError(
            f"cannot write {path}: {error.strerror or error}; make room, or set GLCB_DATA_DIR to another "
            "folder, and run the command again"
        ) from error
