"""Exploration: counts of what was tried where, and the bonus for what was tried little."""

from glcb.explore.bonus import bonus
from glcb.explore.choice import best_arm
from glcb.explore.counts import Counts

__all__ = ["Counts", "best_arm", "bonus"]
