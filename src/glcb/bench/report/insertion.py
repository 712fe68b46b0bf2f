"""Insertion of result tables into a Markdown document, between two markers."""

from pathlib import Path

from glcb._errors import ResultsError
from glcb._files import atomic_write
from glcb.bench.report import markdown
from glcb.bench.report.build import read
from glcb.bench.report.document import Table
from glcb.bench.report.sections import comparison

BEGIN = "<!-- results: begin -->"
END = "<!-- results: end -->"


def insert(folder: Path, document: Path) -> None:
    """Replace the text between the markers in ``document`` with the tables of ranks and rewards.

    Parameters
    ----------
    folder : Path
        Results folder.
    document : Path
        Markdown file with a line ``<!-- results: begin -->`` and a later line ``<!-- results: end -->``.

    Raises
    ------
    ResultsError
        If there are no results, or the document cannot be read or written or lacks the markers.
    """
    try:
        text = document.read_bytes().decode()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ResultsError(f"cannot read {document}: {reason}; pass a Markdown file in UTF-8") from error
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ResultsError(f"{document} must contain a line {BEGIN} and after it a line {END}")
    updated = f"{before}{BEGIN}\n{tables(folder)}\n{END}{after}"
    try:
        with atomic_write(document) as file:
            file.write(updated.encode())
    except OSError as error:
        raise ResultsError(f"cannot write {document}: {error.strerror or error}") from error


def tables(folder: Path) -> str:
    """Return the tables of ranks and rewards of ``folder`` as Markdown."""
    selection = read(folder)
    sections = (
        comparison.rank_section(selection),
        comparison.reward_section(selection, comparison.order(selection)),
    )
    shown = [block for section in sections for block in section.blocks if isinstance(block, Table)]
    return "\n\n".join(map(markdown.table, shown))
