"""Playing tasks with policies, and telling how it went."""

from glcb.bench.play import Played, play

__all__ = ["Played", "play"]
