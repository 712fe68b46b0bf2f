"""US Census 1990 (Meek, Thiesson, Heckerman): which of nine groups of occupations does a person have?"""

from pathlib import Path

from glcb.tasks.data.directory import DataFile, Facts
from glcb.tasks.data.readers import Reading
from glcb.tasks.data.text_file import read_header, read_text_file
from glcb.tasks.file_task import LabeledFileTask
from glcb.tasks.labeled import Labeled
from glcb.tasks.registry import register

_LICENCE = "CC BY 4.0"
_ORIGIN = "https://archive.ics.uci.edu/dataset/116/us+census+data+1990"


@register
class Census(LabeledFileTask):
    """Guess a person's occupation from 67 answers to the census, every one of them a category.

    The whole file has 389 features. A sample of its first 15,317 and last 22 rows, in which four rare
    answers do not occur, serves as well; ``source`` says which of the two was used.
    """

    name = "census"
    files = (
        DataFile("USCensus1990.data.txt", Facts(2_458_285, 389, 9), _LICENCE, _ORIGIN),
        DataFile(
            "USCensus1990.first15k.csv",
            Facts(15_339, 385, 9, (6_259, 2_115, 2_740, 1_278, 323, 1_031, 1_526, 38, 29)),
            _LICENCE,
            _ORIGIN,
            size=2_216_098,
        ),
    )

    @classmethod
    def parse(cls, path: Path) -> Labeled:
        """Read ``path``: a header, then a number of the case and its answers in each row."""
        answers = [name for name in read_header(path) if name != "caseid"]
        reading: Reading = {"ignore": ["caseid"], "categories": answers}
        return Labeled.split(read_text_file(path, needed=["dOccup"], reading=reading), "dOccup")
