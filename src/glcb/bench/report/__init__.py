"""A folder of results, made readable: one HTML page, and the same as Markdown."""

from pathlib import Path

from glcb._errors import ResultsError
from glcb._files import replacing
from glcb.bench.report import html, markdown
from glcb.bench.report.build import build
from glcb.bench.report.insertion import insert

__all__ = ["insert", "write"]


def write(folder: Path, out: Path | None = None, reference: str | None = None) -> list[Path]:
    """Write the report on ``folder`` to ``out``; return the files to open.

    Nothing is written before all of it is made, and every file is written whole or stays as it was.
    """
    document = build(folder, reference)
    target = folder if out is None else out
    files = {"report.html": html.render(document), **markdown.render(document)}
    try:
        for name, text in files.items():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            with replacing(target / name) as file:
                file.write(text.encode())
    except OSError as error:
        raise ResultsError(f"cannot write the report to {target}: {error.strerror or error}") from error
    return [target / "report.html", target / "report.md"]
