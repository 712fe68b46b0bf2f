"""Adult (Kohavi, Becker 1996): which of fourteen occupations does a person have?"""

from pathlib import Path

from glcb.tasks.data.directory import DataFile, Facts
from glcb.tasks.data.readers import Reading
from glcb.tasks.data.text_file import read_text_file
from glcb.tasks.file_task import LabeledFileTask
from glcb.tasks.labeled import Labeled
from glcb.tasks.registry import register

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


@register
class Adult(LabeledFileTask):
    """Guess a person's occupation from age, education, family, income and the like.

    Rows with a missing value are left out. The second half of the file writes incomes with a dot at the
    end; they stay four different values, which makes 94 features. The original has a remark between the
    halves, in a line that starts with a bar.
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

    @classmethod
    def parse(cls, path: Path) -> Labeled:
        """Read ``path``: the training half and the test half of the original, one after the other."""
        reading: Reading = {"missing": "drop", "categories": ["occupation"]}
        table = read_text_file(path, columns=_COLUMNS, comment="|", reading=reading)
        return Labeled.split(table, "occupation")
