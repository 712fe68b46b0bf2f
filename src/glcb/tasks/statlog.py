"""Statlog (Shuttle): in which of seven states is a radiator of the Space Shuttle?"""

from pathlib import Path

from glcb.tasks.data.directory import DataFile, Facts
from glcb.tasks.data.readers import Reading
from glcb.tasks.data.text_file import read_text_file
from glcb.tasks.file_task import LabeledFileTask
from glcb.tasks.labeled import Labeled
from glcb.tasks.registry import register

_COLUMNS = (*map(str, range(9)), "state")


@register
class Statlog(LabeledFileTask):
    """Guess the state of a shuttle's radiator from nine sensors; four rows of five are of one state."""

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
    def parse(cls, path: Path) -> Labeled:
        """Read ``path``: nine numbers and the label in each row, separated by blanks."""
        reading: Reading = {"categories": ["state"]}
        table = read_text_file(path, columns=_COLUMNS, delimiter=" ", reading=reading)
        return Labeled.split(table, "state")
