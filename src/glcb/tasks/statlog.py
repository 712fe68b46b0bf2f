"""Statlog (Shuttle): in which of seven states is a radiator of the Space Shuttle?"""

from pathlib import Path

from glcb.tasks.directory import DataFile, Facts
from glcb.tasks.file_task import LabelledFileTask
from glcb.tasks.labelled import Labelled
from glcb.tasks.reading import Reading
from glcb.tasks.registry import register
from glcb.tasks.text_file import read_text_file

_COLUMNS = (*map(str, range(9)), "state")


@register
class Statlog(LabelledFileTask):
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
    def parse(cls, path: Path) -> Labelled:
        """Read ``path``: nine numbers and the label in each row, separated by blanks."""
        reading: Reading = {"categories": ["state"]}
        table = read_text_file(path, columns=_COLUMNS, delimiter=" ", reading=reading)
        return Labelled.split(table, "state")
