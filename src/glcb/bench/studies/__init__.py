"""Studies: each answers one question about the paper's algorithm with a figure and small tables."""

from glcb._errors import InvalidSettings
from glcb.bench.studies.base import Study, StudyResult
from glcb.bench.studies.convergence import Convergence
from glcb.bench.studies.gating import Gating

__all__ = ["Study", "StudyResult", "get", "names"]

_STUDIES: dict[str, type[Study]] = {study.name: study for study in (Convergence, Gating)}


def names() -> list[str]:
    """Return the names of all studies."""
    return list(_STUDIES)


def get(name: str) -> type[Study]:
    """Return the study called ``name``.

    Raises
    ------
    InvalidSettings
        If there is no such study.
    """
    if name not in _STUDIES:
        raise InvalidSettings(f"there is no study {name!r}; the studies are {', '.join(_STUDIES)}")
    return _STUDIES[name]
