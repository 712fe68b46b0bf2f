"""What tasks have in common that are made from a file in the data directory."""

from abc import ABC, abstractmethod
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from glcb._errors import DataError, InvalidSettings
from glcb._types import Arm, Rewards
from glcb.tasks import registry
from glcb.tasks.base import STEPS, Stream
from glcb.tasks.data import cache
from glcb.tasks.data.cache import Stored
from glcb.tasks.data.directory import DataFile, Facts, data_directory
from glcb.tasks.labeled import Labeled


class FileTask(ABC):
    """A task that needs a file. Making one does not: only its data does."""

    name: ClassVar[str]
    files: ClassVar[tuple[DataFile, ...]]
    """The files that it can be made from; the first that is there is used."""

    @classmethod
    @abstractmethod
    def read(cls, path: Path) -> Stored:
        """Parse ``path``."""

    @classmethod
    @abstractmethod
    def facts(cls, stored: Stored) -> Facts:
        """Return what a file of this kind is recognized by."""

    @abstractmethod
    def stream(self, seed: int, steps: int = STEPS) -> Stream:
        """Return the stream of ``seed``."""

    @classmethod
    def find(cls) -> tuple[DataFile, Path] | None:
        """Return the file that is there, and where."""
        found = ((file, file.find()) for file in cls.files)
        return next(((file, path) for file, path in found if path is not None), None)

    @property
    def source(self) -> Path:
        """The file that the task is made from."""
        found = self.find()
        if found is None:
            names = " or ".join(file.name for file in self.files)
            raise DataError(
                f"the task {self.name!r} needs the file {names} in {data_directory()}: run "
                f"`glcb data fetch {self.name}`, or set GLCB_DATA_DIR to the folder that has it"
            )
        return found[1]

    @cached_property
    def _stored(self) -> Stored:
        return cache.load(self.name, self.source, self.read)

    def __reduce__(self) -> tuple[Any, ...]:
        # A copy in another process opens the file itself instead of carrying all rows along.
        return type(self), ()


def file_tasks(*wanted: str) -> list[FileTask]:
    """Return the tasks that need a file: those called so, or all of them."""
    tasks = {name: registry.get(name) for name in wanted or registry.names()}
    made_up = [name for name in wanted if not isinstance(tasks[name], FileTask)]
    if made_up:
        raise InvalidSettings(f"the task {made_up[0]!r} needs no data")
    return [task for task in tasks.values() if isinstance(task, FileTask)]


class LabeledFileTask(FileTask):
    """A task made from a file of rows with a label."""

    rewards: Rewards = "binary"

    @classmethod
    @abstractmethod
    def parse(cls, path: Path) -> Labeled:
        """Read ``path``."""

    @classmethod
    def read(cls, path: Path) -> Stored:
        """Parse ``path``."""
        return cls.parse(path).store()

    @classmethod
    def facts(cls, stored: Stored) -> Facts:
        """Return what a file of this kind is recognized by."""
        data = Labeled.restore(stored)
        return Facts(data.table.rows, data.table.features, len(data.classes), data.counts)

    @cached_property
    def data(self) -> Labeled:
        """The rows and their labels."""
        return Labeled.restore(self._stored)

    @property
    def arms(self) -> tuple[Arm, ...]:
        """The classes."""
        return self.data.arms

    @property
    def features(self) -> int:
        """Length of a context."""
        return self.data.table.features

    def stream(self, seed: int, steps: int = STEPS) -> Stream:
        """Return the stream of ``seed``."""
        return self.data.stream(seed, steps)

    def sketch(self) -> str:
        """Draw the share of each class."""
        return self.data.sketch()
