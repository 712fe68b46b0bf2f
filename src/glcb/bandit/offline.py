"""A bandit for logged data: choice probabilities without decisions, and learning without pending rewards."""

from collections.abc import Iterable
from typing import Any, NamedTuple

from glcb import _validation
from glcb._arrays import Float32, Float64
from glcb._errors import NotSupported
from glcb._model_file import Snapshot
from glcb._types import Arm
from glcb.bandit._core import BanditCore
from glcb.bandit.bandit import Bandit
from glcb.explore.probabilities import probabilities


class Preview(NamedTuple):
    """What a bandit would do in a context. Arrays are in the order of its arms."""

    values: Float64
    """The expected reward of each arm."""
    probabilities: Float64
    """The probability of each arm; 0 for arms that are not eligible."""
    x: Float32
    """The encoded context."""


class OfflineBandit:
    """A copy of a bandit that neither draws arms nor keeps decisions.

    Parameters
    ----------
    bandit : Bandit
        The bandit to copy. It does not change.
    """

    def __init__(self, bandit: Bandit) -> None:
        self._core = BanditCore.from_snapshot(bandit.snapshot())

    @property
    def arms(self) -> tuple[Arm, ...]:
        """The names of the arms."""
        return self._core.arms

    def preview(self, context: Any, eligible: Iterable[Arm] | None = None) -> Preview:
        """Return the values and the choice probabilities for a context. Nothing is counted or learned.

        Raises
        ------
        NotSupported
            If arms have features, or positions are features.
        """
        core = self._core
        if core.catalog is not None or core.positions:
            raise NotSupported("a bandit with features of arms or positions has no preview: use decide_many")
        allowed = None if eligible is None else _validation.eligible(eligible, core.index)
        prepared = core.prepare(context)
        estimates = prepared.policy.estimate(prepared.encoded.x)
        scores = estimates.values + estimates.bonuses
        config = core.config
        chosen = probabilities(scores, allowed, config.exploration, config.exploration_mode)
        return Preview(estimates.values, chosen, prepared.encoded.x)

    def learn(self, context: Any, arm: Arm, reward: float) -> None:
        """Learn from a decision together with its reward."""
        self._core.replay_row(context, arm, reward, 0.0)

    def snapshot(self) -> Snapshot:
        """Return the complete state."""
        return self._core.snapshot()
