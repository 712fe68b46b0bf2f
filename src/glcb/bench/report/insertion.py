"""Insertion of result tables into Markdown documents, between two markers.

A document can show several results folders. Each place begins with a line that names the folder and the
report sections to show as tables, and ends with a fixed line::

    <!-- results: reference ranks rewards -->
    <!-- results: end -->
"""

import re
from pathlib import Path

from glcb._document import markdown
from glcb._document.document import Table
from glcb._errors import ResultsError
from glcb._files import atomic_write
from glcb.bench.report.build import BenchmarkReport

END = "<!-- results: end -->"
CONCLUSION = "conclusion"
"""Inserts the sentence at the top of the report."""

_PLACE = re.compile(
    r"(<!-- results: (?!end -->)(\S+)((?: \S+)*) -->)\r?\n(?:(?!<!-- results: ).)*" + re.escape(END),
    re.DOTALL,
)


def insert(folder: Path, document: Path, reference: str | None = None) -> None:
    """Replace the text at the places of ``document`` that name ``folder`` with tables of its report.

    Parameters
    ----------
    folder : Path
        Results folder. Only its last part is compared with the name at a place.
    document : Path
        Markdown file with a line such as ``<!-- results: reference ranks rewards -->`` and a later line
        ``<!-- results: end -->``.
    reference : str, optional
        Policy for paired differences. Default: the policy with the best mean rank.

    Raises
    ------
    ResultsError
        If there are no results, if the document cannot be read or written, if it has no place for the folder,
        or if a place names an unknown section.
    InvalidSettings
        If there are no runs of ``reference``.
    """
    try:
        text = document.read_bytes().decode()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ResultsError(f"cannot read {document}: {reason}; pass a Markdown file in UTF-8") from error
    name = folder.resolve().name
    places = [place for place in _PLACE.finditer(text) if place[2] == name]
    if not places:
        raise ResultsError(
            f"{document} must contain a line <!-- results: {name} ranks rewards --> and after it a line {END}"
        )
    report = BenchmarkReport(folder, reference)
    for place in reversed(places):
        content = _content(report, place[3].split(), document)
        text = f"{text[: place.start()]}{place[1]}\n{content}\n{END}{text[place.end() :]}"
    try:
        with atomic_write(document) as file:
            file.write(text.encode())
    except OSError as error:
        raise ResultsError(f"cannot write {document}: {error.strerror or error}") from error


def _content(report: BenchmarkReport, names: list[str], document: Path) -> str:
    """Return the tables of the sections as Markdown."""
    available = [CONCLUSION, *report.sections]
    unknown = [name for name in names if name not in available]
    if unknown or not names:
        raise ResultsError(
            f"a marker in {document} must name sections out of {', '.join(available)}; "
            f"got {', '.join(unknown) or 'none'}"
        )
    parts: list[str] = []
    for name in names:
        if name == CONCLUSION:
            parts.append(markdown.strong(report.conclusion))
        else:
            blocks = report.sections[name]().blocks
            parts += [markdown.table(block) for block in blocks if isinstance(block, Table)]
    return "\n\n".join(parts)
