"""The protocol between rewards and networks."""

from typing import Protocol

from glcb._types import Float32, Float64, Int64


class ValueModel(Protocol):
    """Translates between the reward of an arm and the 0/1 targets of that arm's networks."""

    @property
    def networks_per_arm(self) -> int:
        """How many networks each arm needs."""

    @property
    def outcomes(self) -> Float64:
        """The rewards between which the predicted distribution is spread."""

    def values(self, probabilities: Float32) -> Float64:
        """Return the expected reward of each arm; ``probabilities`` has one row per arm."""

    def distributions(self, probabilities: Float32) -> Float64:
        """Return the probability of each outcome, one row per arm."""

    def targets(self, reward: float) -> tuple[Int64, Float32]:
        """Return which of the arm's networks learn from ``reward``, and the target of each."""
