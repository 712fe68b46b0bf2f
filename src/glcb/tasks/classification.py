"""Tasks made from classification data sets: the classes are the arms and the correct one pays 1."""

from abc import ABC, abstractmethod
from functools import cached_property
from pathlib import Path

import numpy as np

from glcb._types import Arm, Rewards
from glcb.tasks.base import STEPS, Stream, min_max, stream_generators
from glcb.tasks.data.cache import ParsedData
from glcb.tasks.data.directory import DataFile, Facts
from glcb.tasks.data.readers import ColumnOptions, read_header, read_text_file
from glcb.tasks.data.table import LabeledTable
from glcb.tasks.file_task import FileTask
from glcb.tasks.registry import register


class LabeledTask(ABC):
    """A task made from labeled rows."""

    rewards: Rewards = "binary"

    @property
    @abstractmethod
    def data(self) -> LabeledTable:
        """The rows and their labels."""

    @property
    def arms(self) -> tuple[Arm, ...]:
        """The classes."""
        return self.data.arms

    @property
    def features(self) -> int:
        """Number of features of a context."""
        return self.data.table.features

    def stream(self, seed: int, steps: int = STEPS) -> Stream:
        """Return the stream of ``seed``; it is not longer than the data."""
        return self.data.stream(seed, steps)

    def sketch(self) -> str:
        """Draw the share of each class as bars, one line per class."""
        return self.data.sketch()


class LabeledFileTask(LabeledTask, FileTask):
    """A task made from a file of labeled rows."""

    @classmethod
    @abstractmethod
    def parse(cls, path: Path) -> LabeledTable:
        """Parse ``path``."""

    @classmethod
    def read(cls, path: Path) -> ParsedData:
        """Parse ``path`` into a form that can be cached."""
        return cls.parse(path).to_parsed()

    @classmethod
    def facts(cls, parsed: ParsedData) -> Facts:
        """Return the facts that identify the file."""
        data = LabeledTable.from_parsed(parsed)
        return Facts(data.table.rows, data.table.features, len(data.classes), data.counts)

    @cached_property
    def data(self) -> LabeledTable:
        """The rows and their labels."""
        return LabeledTable.from_parsed(self._parsed)


@register
class Adult(LabeledFileTask):
    """Predict a person's occupation from age, education, family, income and similar features.

    Source: Kohavi, Becker 1996. Rows with a missing value are dropped. The second half of the file writes
    incomes with a trailing dot; they remain four distinct values, which makes 94 features. The original has
    a comment line between the halves that starts with a vertical bar.
    """

    name = "adult"
    files = (
        DataFile(
            "adult.full",
            Facts(
                45_222,
                94,
                14,
                (5540, 14, 6020, 5984, 1480, 2046, 2970, 4808, 232, 6008, 976, 5408, 1420, 2316),
            ),
            "CC BY 4.0",
            "https://archive.ics.uci.edu/dataset/2/adult",
            size=5_977_435,
        ),
    )

    _COLUMNS = (
        "age",
        "workclass",
        "weight",
        "education",
        "education-years",
        "marital-status",
        "occupation",
        "relationship",
        "race",
        "sex",
        "capital-gain",
        "capital-loss",
        "hours",
        "country",
        "income",
    )

    @classmethod
    def parse(cls, path: Path) -> LabeledTable:
        """Parse ``path``: the training half of the original followed by the test half."""
        options = ColumnOptions(missing="drop", categories=["occupation"])
        table = read_text_file(path, columns=cls._COLUMNS, comment="|", options=options)
        return LabeledTable.split(table, "occupation")


@register
class Census(LabeledFileTask):
    """Predict a person's group of occupations from 67 census answers, all of them categories.

    Source: US Census 1990 (Meek, Thiesson, Heckerman). The full file has 389 features. A sample of its first
    15,317 and last 22 rows can be used instead; it lacks four rare answers. ``source`` is the file in use.
    """

    name = "census"
    _LICENSE = "CC BY 4.0"
    _ORIGIN = "https://archive.ics.uci.edu/dataset/116/us+census+data+1990"
    files = (
        DataFile("USCensus1990.data.txt", Facts(2_458_285, 389, 9), _LICENSE, _ORIGIN),
        DataFile(
            "USCensus1990.first15k.csv",
            Facts(15_339, 385, 9, (6_259, 2_115, 2_740, 1_278, 323, 1_031, 1_526, 38, 29)),
            _LICENSE,
            _ORIGIN,
            size=2_216_098,
        ),
    )

    @classmethod
    def parse(cls, path: Path) -> LabeledTable:
        """Parse ``path``: a header, then a case number and the answers in each row."""
        answers = [name for name in read_header(path) if name != "caseid"]
        options = ColumnOptions(ignore=["caseid"], categories=answers)
        return LabeledTable.split(read_text_file(path, required=["dOccup"], options=options), "dOccup")


@register
class Covertype(LabeledFileTask):
    """Predict the forest cover of a patch of 30 × 30 m from its elevation, slope, soil and distances.

    Source: Blackard 1998.
    """

    name = "covertype"
    files = (
        DataFile(
            "covtype.data",
            Facts(581_012, 54, 7, (211_840, 283_301, 35_754, 2_747, 9_493, 17_367, 20_510)),
            "CC BY 4.0, © Colorado State University",
            "https://archive.ics.uci.edu/dataset/31/covertype",
            size=75_169_317,
            sha256="0a9371cef7c964b5475d6053cc3e0894a5aa6f65ad1ed3ecb01c45aa96217945",
        ),
    )

    @classmethod
    def parse(cls, path: Path) -> LabeledTable:
        """Parse ``path``: 54 numbers and the label in each row."""
        columns = (*map(str, range(54)), "cover")
        table = read_text_file(path, columns=columns, options=ColumnOptions(categories=["cover"]))
        return LabeledTable.split(table, "cover")


@register
class Statlog(LabeledFileTask):
    """Predict the state of a Space Shuttle radiator from nine sensors; four of five rows share one state."""

    name = "statlog"
    files = (
        DataFile(
            "shuttle.trn",
            Facts(43_500, 9, 7, (34_108, 37, 132, 6_748, 2_458, 6, 11)),
            "CC BY 4.0",
            "https://archive.ics.uci.edu/dataset/148/statlog+shuttle",
            size=1_153_518,
            sha256="87b24ee9fb5137e1d417659cf905d84d0e15342bbaa60770f1ae83da1a38200a",
        ),
    )

    @classmethod
    def parse(cls, path: Path) -> LabeledTable:
        """Parse ``path``: nine numbers and the label in each row, separated by spaces."""
        columns = (*map(str, range(9)), "state")
        options = ColumnOptions(categories=["state"])
        return LabeledTable.split(
            read_text_file(path, columns=columns, delimiter=" ", options=options), "state"
        )


@register
class StatlogSwitch(Statlog):
    """Like the statlog task, but halfway through, each arm takes over the state of the next arm."""

    name = "statlog-switch"

    def stream(self, seed: int, steps: int = STEPS) -> Stream:
        """Return the stream of ``seed``: the rows of the statlog task."""
        unchanged = super().stream(seed, steps)
        rewards = unchanged.rewards.copy()
        later = rewards[len(rewards) // 2 :]
        later[:] = np.roll(later, -1, axis=1)
        return Stream(unchanged.contexts, rewards)


@register
class Mushroom(LabeledFileTask):
    """Eat a mushroom or leave it: an edible one pays 5, a poisonous one 5 or −35 at even odds, leaving it 0.

    Source: Schlimmer 1987. Mushrooms are drawn with replacement, so a stream can have any length.
    """

    name = "mushroom"
    rewards: Rewards = (-35.0, 5.0)
    files = (
        DataFile(
            "mushroom.data",
            Facts(8_124, 117, 2, (4_208, 3_916)),
            "CC BY 4.0",
            "https://archive.ics.uci.edu/dataset/73/mushroom",
            size=373_704,
        ),
    )

    _POISONOUS = 1

    @classmethod
    def parse(cls, path: Path) -> LabeledTable:
        """Parse ``path``: e or p for the kind, then 22 letters; a question mark is an ordinary value."""
        columns = ("kind", *map(str, range(22)))
        options = ColumnOptions(categories=columns, missing_values=())
        return LabeledTable.split(read_text_file(path, columns=columns, options=options), "kind")

    @property
    def arms(self) -> tuple[Arm, ...]:
        """Eat or leave."""
        return ("eat", "leave")

    def stream(self, seed: int, steps: int = STEPS) -> Stream:
        """Return the stream of ``seed``."""
        row_rng, luck_rng = stream_generators(seed, steps, 2)
        rows = row_rng.integers(self.data.table.rows, size=steps)
        features, kinds = self.data.contexts_and_classes(rows)
        unlucky = (kinds == self._POISONOUS) & (luck_rng.random(steps) < 0.5)
        eaten = np.where(unlucky, -35.0, 5.0)
        return Stream(min_max(features), np.stack([eaten, np.zeros(steps)], axis=1))
