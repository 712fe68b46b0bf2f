"""The protocol between rewards and networks."""

from typing import NamedTuple, Protocol

from glcb._state import State
from glcb._types import Float32, Float64, Int64


class Expected(NamedTuple):
    """Mean and standard deviation of the reward that each arm is predicted to bring."""

    values: Float64
    deviations: Float64


class ValueModel(Protocol):
    """Translates between the reward of an arm and the targets of that arm's networks, from 0 to 1."""

    @property
    def networks_per_arm(self) -> int:
        """How many networks each arm needs."""

    @property
    def outcomes(self) -> Float64:
        """The rewards between which the predicted distribution is spread, one row per arm."""

    def expected(self, probabilities: Float32) -> Expected:
        """Return what to expect of each arm; ``probabilities`` has a row per arm, context after context."""

    def slopes(self, here: Float64, there: Float64) -> Float64:
        """Return how much an arm's value moves with each of its probabilities on the way from there to here.

        Slopes times differences of probabilities add up to the difference of values. One row per arm.
        """

    def distributions(self, probabilities: Float32) -> Float64:
        """Return the probability of each outcome, one row per arm."""

    def targets(self, arm: int, reward: float) -> tuple[Int64, Float32]:
        """Return which of the networks of ``arm`` learn from ``reward``, and the target of each."""

    def learn(self, arm: int, reward: float) -> None:
        """Take in that ``arm`` brought ``reward``."""

    def forget(self) -> None:
        """Let what has been taken in count half."""

    def rearrange(self, sources: Int64) -> None:
        """Let arm j be what arm ``sources[j]`` was, or a new one for −1."""

    def state(self) -> State:
        """Return what has been taken in."""

    def restore(self, state: State) -> None:
        """Take over what :meth:`state` returned; raise ValueError or KeyError if it cannot be ours."""
