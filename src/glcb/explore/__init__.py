"""Exploration: decision counts per context, the bonus for low counts, and choice probabilities."""

from glcb.explore.counts import VisitCounts
from glcb.explore.scoring import best_arm, bonus

__all__ = ["VisitCounts", "best_arm", "bonus"]
