"""Tasks that are made from a file in the data directory."""

from abc import ABC, abstractmethod
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from glcb._errors import DataError, InvalidSettings
from glcb.tasks import registry
from glcb.tasks.base import STEPS, NeedsData, Stream
from glcb.tasks.data import cache
from glcb.tasks.data.cache import ParsedData
from glcb.tasks.data.directory import DataFile, Facts, data_directory


class FileTask(ABC):
    """A task that needs a data file. The file is opened when its data is first used."""

    name: ClassVar[str]
    files: ClassVar[tuple[DataFile, ...]]
    """Files that the task can be made from; the first one that exists is used."""

    @classmethod
    @abstractmethod
    def read(cls, path: Path) -> ParsedData:
        """Parse ``path``."""

    @classmethod
    @abstractmethod
    def facts(cls, parsed: ParsedData) -> Facts:
        """Return the facts that identify the file."""

    @abstractmethod
    def stream(self, seed: int, steps: int = STEPS) -> Stream:
        """Return the stream of ``seed``."""

    @classmethod
    def find(cls) -> tuple[DataFile, Path] | None:
        """Return the first of the task's files that exists, with its path, or None."""
        candidates = ((file, file.find()) for file in cls.files)
        return next(((file, path) for file, path in candidates if path is not None), None)

    @property
    def rows(self) -> int:
        """Number of rows of the file."""
        return (self.find() or self.files)[0].facts.rows

    def has_data(self) -> bool:
        """Return whether the file exists."""
        return self.find() is not None

    @property
    def source(self) -> Path:
        """Path of the file that the task is made from."""
        located = self.find()
        if located is None:
            names = " or ".join(file.name for file in self.files)
            raise DataError(
                f"the task {self.name!r} needs the file {names} in {data_directory()}: run "
                f"`glcb data fetch {self.name}`, or set GLCB_DATA_DIR to the folder that contains it"
            )
        return located[1]

    @cached_property
    def _parsed(self) -> ParsedData:
        return cache.load(self.name, self.source, self.read)

    def __reduce__(self) -> tuple[Any, ...]:
        # A copy in another process opens the file itself; rows are not pickled.
        return type(self), ()


def file_tasks(*names: str) -> list[FileTask]:
    """Return the tasks called ``names``, or all tasks that need a specific file.

    Raises
    ------
    InvalidSettings
        If a name is unknown or the task needs no specific file.
    """
    tasks = {name: registry.get(name) for name in names or registry.names()}
    for name in names:
        if not isinstance(tasks[name], FileTask):
            reason = "is a data set of your own, not a known file" if "/" in name else "needs no data"
            if isinstance(tasks[name], NeedsData):
                reason = f"has files that cannot be fetched: `glcb tasks show {name}` says where they belong"
            raise InvalidSettings(f"the task {name!r} {reason}")
    return [task for task in tasks.values() if isinstance(task, FileTask)]
