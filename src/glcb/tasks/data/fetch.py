"""Download of data files. No other module of glcb uses the network for data.

A partial download is kept next to its destination, with a note of its URL and version. An interrupted
download resumes where it stopped, unless the server's file has changed. Only a complete and verified file
gets its final name.
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
"""Bucket of the authors of Deep Bayesian Bandits."""

_TIMEOUT = 30.0
_BLOCK = 1 << 16
_ABSENT = (403, 404, 410)  # the bucket responds with 403 for a file that does not exist

Progress = Callable[[str, int, int | None], None]
"""Progress callback: file name, bytes received so far, and the total if the server reports it."""


def fetch(
    task: FileTask, *, base_url: str = BUCKET, progress: Progress = lambda *_: None, timeout: float = _TIMEOUT
) -> Path:
    """Download the file of ``task``, verify it and return its path.

    Parameters
    ----------
    task : FileTask
        The task whose file is missing.
    base_url : str
        Folder on the server. A mirror may hold compressed files.
    progress : callable
        Called with the file name, the bytes received so far and the total or None.
    timeout : float
        Seconds without data after which the download fails.

    Returns
    -------
    Path
        The verified file in the data directory.

    Raises
    ------
    DataError
        If the server does not have the file, the file is wrong, or the network or the disk fails.
    InvalidSettings
        If ``base_url`` is not an HTTP URL.
    """
    if not base_url.startswith(("https://", "http://")):
        raise InvalidSettings(f"base_url must start with https:// or http://, got {base_url!r}")
    folder = data_directory()
    for file in task.files:
        with _disk(folder):
            (folder / file.name).parent.mkdir(parents=True, exist_ok=True)
        for name in file.names:
            url = f"{base_url.rstrip('/')}/{name}"
            download = _Download(url, folder / f"{name}.part", progress, timeout)
            if download.run():
                try:
                    verify(task, file, download.part)
                except DataError as error:
                    download.discard()
                    raise DataError(f"{url} is not the expected file and was removed: {error}") from error
                download.part.replace(folder / name)
                download.discard()
                return folder / name
    names = " or ".join(file.name for file in task.files)
    raise DataError(f"{base_url} has no file {names}: pass a mirror that has it with --base-url")


class _Download:
    """The download of one file."""

    def __init__(self, url: str, part: Path, progress: Progress, timeout: float) -> None:
        self.url = url
        self.part = part
        self._note = part.with_name(f"{part.name}.json")
        self._progress = progress
        self._timeout = timeout

    def run(self) -> bool:
        """Download the rest of the file; return False if the server does not have it."""
        have, version = self._resume_point()
        try:
            with self._request(have, version) as response:
                self._receive(response, have)
        except urllib.error.HTTPError as error:
            error.close()
            if error.code in _ABSENT:
                return False
            if error.code == http.client.REQUESTED_RANGE_NOT_SATISFIABLE and have:
                self.discard()
                return self.run()
            raise DataError(f"{self.url}: the server responded with {error.code} {error.reason}") from error
        except (OSError, http.client.HTTPException) as error:
            raise DataError(
                f"{self.url}: {getattr(error, 'reason', error)}; check the connection and run the command "
                "again to resume the download"
            ) from error
        return True

    def discard(self) -> None:
        """Remove the partial download."""
        self.part.unlink(missing_ok=True)
        self._note.unlink(missing_ok=True)

    def _resume_point(self) -> tuple[int, str]:
        """Return the number of bytes received earlier and the version of the file they belong to."""
        try:
            note = json.loads(self._note.read_text())
            url, version = note["url"], note["version"]
            have = self.part.stat().st_size
        except (OSError, ValueError, KeyError, TypeError):
            return 0, ""
        return (have, version) if url == self.url and version and isinstance(version, str) else (0, "")

    def _request(self, have: int, version: str) -> http.client.HTTPResponse:
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
            self._check_free_space(total, have)
            version = response.headers["ETag"] or response.headers["Last-Modified"] or ""
            self._note.write_text(json.dumps({"url": self.url, "version": version}))
        with self._appending(have) as write:
            while block := response.read(_BLOCK):
                write(block)
                have += len(block)
                self._progress(self.part.stem, have, total)
        if total is not None and have != total:
            raise http.client.HTTPException(f"the connection was lost after {have:,} of {total:,} bytes")

    @contextmanager
    def _appending(self, have: int) -> Iterator[Callable[[bytes], None]]:
        """Yield a function that appends to the partial file and raises disk errors as DataError."""

        def write(block: bytes) -> None:
            with _disk(self.part):
                file.write(block)

        with _disk(self.part):
            file = self.part.open("ab" if have else "wb", buffering=0)
        with file:
            yield write

    def _check_free_space(self, total: int | None, have: int) -> None:
        free = shutil.disk_usage(self.part.parent).free
        if total is not None and total - have > free:
            raise DataError(
                f"{self.part.stem} needs {total - have:,} more bytes, but only {free:,} are free in "
                f"{self.part.parent}: free some space, or set GLCB_DATA_DIR to another folder"
            )


@contextmanager
def _disk(path: Path) -> Iterator[None]:
    """Raise OS errors of the block as disk errors, so that they are not mistaken for network errors."""
    try:
        yield
    except OSError as error:
        raise DataError(
            f"cannot write {path}: {error.strerror or error}; free space, or set GLCB_DATA_DIR to another "
            "folder, and run the command again"
        ) from error
