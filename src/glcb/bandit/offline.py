"""A bandit for logged data: choice probabilities without decisions, and learning without pending rewards."""

from collections.abc import Iterable
from typing import Any, NamedTuple

from glcb import _validation
from glcb._arrays import Float32, Float64
from glcb._model_file import Snapshot
from glcb._types import Arm
from glcb.bandit._core import BanditCore
from glcb.bandit.bandit import Bandit
from glcb.explore.choice import distribution
from glcb.policies import registry


class Preview(NamedTuple):
    """A bandit's behavior in a context. Arrays are in the order of ``arms``."""

    arms: tuple[Arm, ...]
    """The arms of the bandit; if they have features, the candidates."""
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
        self._core = BanditCore.from_snapshot(bandit._snapshot())

    @property
    def arms(self) -> tuple[Arm, ...]:
        """The names of the arms."""
        return self._core.arms

    @property
    def has_arm_features(self) -> bool:
        """Whether arms have features, so that decisions can have their own candidates."""
        return self._core.catalog is not None

    @property
    def is_randomized(self) -> bool:
        """Whether the policy draws random numbers for its values."""
        return registry.get(self._core.config.policy).policy_class.is_randomized

    def check_eligible(self, eligible: Iterable[Arm] | None) -> None:
        """Raise UnknownArm unless all of these arms exist. Arms with features can be unknown here."""
        if eligible is not None and self._core.catalog is None:
            _validation.eligible(eligible, self._core.index)

    def preview(
        self, context: Any, eligible: Iterable[Arm] | None = None, candidates: Any = None, slot: int = 0
    ) -> Preview:
        """Return the values and the choice probabilities for a context. Nothing is counted or learned.

        Parameters
        ----------
        context
            The context.
        eligible
            The arms to choose from; None for all.
        candidates
            The arms with their features, if arms have features; None for the catalog.
        slot
            The position in a ranking.
        """
        core = self._core
        allowed = None
        if core.catalog is None:
            candidates = None
            allowed = None if eligible is None else _validation.eligible(eligible, core.index)
        prepared = core.prepare(context, candidates, eligible)
        policy, arms, x = prepared.policy, prepared.arms, core.at_position(prepared.encoded.x, slot)
        estimates = policy.estimate(x) if arms is None else core.estimate(policy, x, arms)
        rule = core.choice_rule(False, arms)
        if slot > 0:
            rule = rule._replace(bounds=None)
        scores = estimates.values + estimates.bonuses
        shares = distribution(scores, estimates.bonuses, rule, allowed)
        names = core.arms if arms is None else arms.names
        return Preview(names, estimates.values, shares, prepared.encoded.x)

    def learn(self, context: Any, arm: Arm, reward: float, candidates: Any = None, slot: int = 0) -> None:
        """Learn from a decision together with its reward."""
        self._core.replay_row(context, arm, reward, 0.0, candidates, slot)

    def snapshot(self) -> Snapshot:
        """Return the complete state."""
        return self._core.snapshot()

    def __getstate__(self) -> Snapshot:
        return self.snapshot()

    def __setstate__(self, state: Snapshot) -> None:
        self._core = BanditCore.from_snapshot(state)
