"""Covertype (Blackard 1998): which of seven kinds of forest grows on a patch of land?"""

from pathlib import Path

from glcb.tasks.directory import DataFile, Facts
from glcb.tasks.file_task import LabelledFileTask
from glcb.tasks.labelled import Labelled
from glcb.tasks.registry import register
from glcb.tasks.text_file import read_text_file

_COLUMNS = (*map(str, range(54)), "cover")


@register
class Covertype(LabelledFileTask):
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
    def parse(cls, path: Path) -> Labelled:
        """Read ``path``: 54 numbers and the label in each row."""
        table = read_text_file(path, columns=_COLUMNS, reading={"categories": ["cover"]})
        return Labelled.split(table, "cover")
