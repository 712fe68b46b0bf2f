"""Covertype (Blackard 1998): which of seven kinds of forest grows on a patch of land?"""

from pathlib import Path

from glcb.tasks.data.directory import DataFile, Facts
from glcb.tasks.data.text_file import read_text_file
from glcb.tasks.file_task import LabeledFileTask
from glcb.tasks.labeled import Labeled
from glcb.tasks.registry import register

_COLUMNS = (*map(str, range(54)), "cover")


@register
class Covertype(LabeledFileTask):
    """Guess the forest cover of a patch of 30 × 30 m from its height, slope, soil and distances."""

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
    def parse(cls, path: Path) -> Labeled:
        """Read ``path``: 54 numbers and the label in each row."""
        table = read_text_file(path, columns=_COLUMNS, reading={"categories": ["cover"]})
        return Labeled.split(table, "cover")
