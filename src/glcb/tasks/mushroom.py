"""Mushroom (Schlimmer 1987): eat it, or leave it?"""

from pathlib import Path

import numpy as np

from glcb._types import Arm, Rewards
from glcb.tasks.base import STEPS, Stream, begin, min_max
from glcb.tasks.data.directory import DataFile, Facts
from glcb.tasks.data.readers import Reading
from glcb.tasks.data.text_file import read_text_file
from glcb.tasks.file_task import LabeledFileTask
from glcb.tasks.labeled import Labeled
from glcb.tasks.registry import register

_COLUMNS = ("kind", *map(str, range(22)))
_POISONOUS = 1


@register
class Mushroom(LabeledFileTask):
    """Eating an edible mushroom brings 5, a poisonous one 5 or −35 with equal chances, leaving it 0.

    Mushrooms are drawn with replacement, so there is no end of them.
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

    @classmethod
    def parse(cls, path: Path) -> Labeled:
        """Read ``path``: e or p for the kind, then 22 letters; a question mark is a value like others."""
        reading: Reading = {"categories": _COLUMNS, "missing_values": ()}
        return Labeled.split(read_text_file(path, columns=_COLUMNS, reading=reading), "kind")

    @property
    def arms(self) -> tuple[Arm, ...]:
        """What one can do with a mushroom."""
        return ("eat", "leave")

    def stream(self, seed: int, steps: int = STEPS) -> Stream:
        """Return the stream of ``seed``."""
        row_rng, luck_rng = begin(seed, steps, 2)
        rows = row_rng.integers(self.data.table.rows, size=steps)
        features, kinds = self.data.contexts_and_classes(rows)
        unlucky = (kinds == _POISONOUS) & (luck_rng.random(steps) < 0.5)
        eaten = np.where(unlucky, -35.0, 5.0)
        return Stream(min_max(features), np.stack([eaten, np.zeros(steps)], axis=1))
