"""Reports on results folders, as one HTML page and as Markdown."""

from pathlib import Path

from glcb._document import html, markdown
from glcb._errors import ResultsError
from glcb._files import atomic_write
from glcb.bench.report.build import BenchmarkReport
from glcb.bench.report.insertion import insert

__all__ = ["insert", "write"]


def write(folder: Path, out: Path | None = None, reference: str | None = None) -> list[Path]:
    """Write ``report.html`` and ``report.md``.

    Everything is rendered before anything is written, and each file is replaced atomically.

    Parameters
    ----------
    folder : Path
        Results folder, made by ``glcb bench``.
    out : Path, optional
        Destination. Default: ``folder``.
    reference : str, optional
        Policy for paired differences. Default: the policy with the best mean rank.

    Returns
    -------
    list of Path
        The HTML and the Markdown report.

    Raises
    ------
    ResultsError
        If there are no results, or the report cannot be written.
    InvalidSettings
        If there are no runs of ``reference``.
    """
    document = BenchmarkReport(folder, reference).document()
    target = folder if out is None else out
    files = {"report.html": html.render(document), **markdown.render(document)}
    try:
        for name, text in files.items():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            with atomic_write(target / name) as file:
                file.write(text.encode())
    except OSError as error:
        raise ResultsError(f"cannot write the report to {target}: {error.strerror or error}") from error
    return [target / "report.html", target / "report.md"]
