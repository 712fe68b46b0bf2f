"""Keeping the tables of a document true: they are made from results and put between two marks."""

from pathlib import Path

from glcb._errors import ResultsError
from glcb.bench.report import markdown
from glcb.bench.report.build import read
from glcb.bench.report.document import Table
from glcb.bench.report.sections import ranks, rewards

BEGIN = "<!-- results: begin -->"
END = "<!-- results: end -->"


def insert(folder: Path, document: Path) -> None:
    """Replace what stands between the marks in ``document`` by the tables of ranks and rewards."""
    text = document.read_text(encoding="utf-8")
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ResultsError(f"{document} needs a line {BEGIN} and below it a line {END}")
    document.write_text(f"{before}{BEGIN}\n{tables(folder)}\n{END}{after}", encoding="utf-8")


def tables(folder: Path) -> str:
    """Return the tables of ranks and rewards of ``folder`` as Markdown."""
    selection = read(folder)
    sections = (ranks.section(selection), rewards.section(selection, ranks.order(selection)))
    shown = [block for section in sections for block in section.blocks if isinstance(block, Table)]
    return "\n\n".join(map(markdown.table, shown))
