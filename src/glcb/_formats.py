"""The format of each kind of file: a number that changes with the content, to detect foreign files."""

from dataclasses import dataclass

from glcb._errors import GlcbError, LogError, ModelFileError, ResultsError, StorageError
from glcb._version import __version__


@dataclass(frozen=True)
class Format:
    """The format of a kind of file."""

    kind: str
    number: int
    error: type[GlcbError]
    """The error for a file of another format."""
    advice: str
    """Advice for such a file."""

    def mismatch(self, file: object, found: object, writer: str | None = None) -> GlcbError:
        """Return the error for a file of another format.

        Parameters
        ----------
        file
            The file.
        found
            Its format.
        writer
            The version of glcb that wrote it, if it is known.

        Examples
        --------
        >>> str(MODEL.mismatch("m.glcb", 1, "glcb 0.1.0")).partition(", but")[0]
        'm.glcb was written by glcb 0.1.0 (format 1)'
        """
        about = f"has format {found}" if writer is None else f"was written by {writer} (format {found})"
        return self.error(f"{file} {about}, but glcb {__version__} reads format {self.number}: {self.advice}")


MODEL = Format("model", 5, ModelFileError, "use the glcb that wrote it, or train a new model")
"""Trained policies and bandits."""
LOG = Format("log", 4, LogError, "use the glcb that wrote it")
"""Logs of bandits."""
RESULTS = Format("results", 2, ResultsError, "use the glcb that wrote it")
"""Results of benchmarks. Format 1, written by glcb 0.1, has no format line."""
DATABASE = Format(
    "database",
    15,
    StorageError,
    "keep serving it with the glcb that wrote it, or start a new database with --data or --database",
)
"""Databases of the service: tables, events and snapshots."""
FORMATS = (MODEL, LOG, RESULTS, DATABASE)
