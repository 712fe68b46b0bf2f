"""Files that are there whole, or not at all."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from glcb._errors import GlcbError
from glcb._files import replacing


@dataclass(frozen=True)
class Target:
    """A file to be written."""

    path: Path
    error: type[GlcbError]
    """What is raised if it cannot be."""

    @contextlib.contextmanager
    def replaced(self) -> Iterator[IO[bytes]]:
        """Give a file to write to, which takes the place of the old one if all goes well."""
        try:
            with replacing(self.path) as file:
                yield file
        except OSError as error:
            raise self.error(f"cannot write {self.path}: {error.strerror or error}") from error
