"""The studies by their names."""

from typing import TypeVar

from glcb._registry import Registry
from glcb.bench.studies.base import Study

_studies: Registry[type[Study]] = Registry("study", "studies", "glcb.bench.studies")

Registered = TypeVar("Registered", bound=type[Study])


def register(study: Registered) -> Registered:
    """Make the class ``study`` known by its name."""
    _studies.add(study.name, study)
    return study


def names() -> list[str]:
    """Return the names of all studies."""
    return _studies.names()


def get(name: str) -> type[Study]:
    """Return the study called ``name``."""
    return _studies.get(name)
