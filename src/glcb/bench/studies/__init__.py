"""Studies: one question about the algorithm per file, each answered by a picture and a small table."""

from glcb.bench.studies.base import Findings, Study, Workplace
from glcb.bench.studies.registry import get, names

__all__ = ["Findings", "Study", "Workplace", "get", "names"]
