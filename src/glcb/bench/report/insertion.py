"""Keeping the tables of a document true: they are made from results and put between two marks."""

from pathlib import Path

from glcb._errors import ResultsError
from glcb._files import replacing
from glcb.bench.report import markdown
from glcb.bench.report.build import read
from glcb.bench.report.document import Table
from glcb.bench.report.sections import ranks, rewards

BEGIN = "<!-- results: begin -->"
END = "<!-- results: end -->"


def insert(folder: Path, document: Path) -> None:
    """Replace what stands between the marks in ``document`` by the tables of ranks and rewards."""
    try:
        text = document.read_bytes().decode()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ResultsError(f"cannot read {document}: {reason}; name a Markdown file in UTF-8") from error
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ResultsError(f"{document} needs a line {BEGIN} and below it a line {END}")
    updated = f"{before}{BEGIN}\n{tables(folder)}\n{END}{after}"
    try:
        with replacing(document) as file:
            file.write(updated.encode())
    except OSError as error:
        raise ResultsError(f"cannot write {document}: {error.strerror or error}") from error


def tables(folder: Path) -> str:
    """Return the tables of ranks and rewards of ``folder`` as Markdown."""
    selection = read(folder)
    sections = (ranks.section(selection), rewards.section(selection, ranks.order(selection)))
    shown = [block for section in sections for block in section.blocks if isinstance(block, Table)]
    return "\n\n".join(map(markdown.table, shown))
