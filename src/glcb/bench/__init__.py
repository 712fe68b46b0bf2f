"""Playing tasks with policies, and telling how it went."""

from glcb.bench.simulation import Played, simulate

__all__ = ["Played", "simulate"]
