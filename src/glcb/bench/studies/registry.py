"""Studies by name."""

from typing import TypeVar

from glcb._registry import Registry
from glcb.bench.studies.base import Study

_studies: Registry[type[Study]] = Registry("study", "studies", "glcb.bench.studies")

Registered = TypeVar("Registered", bound=type[Study])


def register(study: Registered) -> Registered:
    """Class decorator that registers a study under its ``name``."""
    _studies.add(study.name, study)
    return study


def names() -> list[str]:
    """Return the names of all studies, sorted."""
    return _studies.names()


def get(name: str) -> type[Study]:
    """Return the study called ``name``.

    Raises
    ------
    InvalidSettings
        If there is no such study.
    """
    return _studies.get(name)
