"""Exploration: decision counts per context, the bonus for low counts, and choice probabilities."""

from glcb.explore.counts import Counts
from glcb.explore.scoring import best_arm, bonus

__all__ = ["Counts", "best_arm", "bonus"]
