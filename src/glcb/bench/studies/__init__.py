"""Studies: each answers one question about the algorithm with a figure and small tables."""

from glcb.bench.studies.base import Study, StudyContext, StudyResult
from glcb.bench.studies.registry import get, names

__all__ = ["Study", "StudyContext", "StudyResult", "get", "names"]
