"""Vowpal Wabbit's ε-greedy with a linear model and the coin betting optimizer."""

from collections.abc import Sequence
from typing import Any

from glcb import _validation
from glcb._types import Arm, Rewards
from glcb.policies.registry import register
from glcb.policies.rivals.vowpal_wabbit import VowpalWabbitPolicy


@register("vw-epsilon-greedy", source="Orabona, Tommasi 2017; Vowpal Wabbit")
class VWEpsilonGreedy(VowpalWabbitPolicy):
    """Vowpal Wabbit: the arm with the best linear value, and with probability ``epsilon`` a random arm.

    The weights are learned by coin betting, which has no learning rate.

    Parameters
    ----------
    arms
        The number of arms, or their names.
    features
        The length of a context.
    rewards
        ``"binary"`` for rewards of 0 or 1, or the range ``(low, high)`` of the rewards.
    seed
        Seed of the random numbers that choose the arms.
    epsilon
        The probability of a random choice, from 0 to 1.

    References
    ----------
    Orabona, Tommasi: Training deep networks without learning rates through coin betting. NIPS, 2017.
    """

    def __init__(
        self,
        arms: int | Sequence[Arm],
        features: int,
        *,
        rewards: Rewards = "binary",
        seed: int = 0,
        epsilon: float = 0.05,
    ) -> None:
        self.epsilon = _validation.number("epsilon", epsilon, 0, 1)
        super().__init__(arms, features, rewards=rewards, seed=seed)

    def _options(self) -> list[str]:
        return ["--epsilon", repr(self.epsilon), "--coin"]

    def _arguments(self) -> dict[str, Any]:
        return {**super()._arguments(), "epsilon": self.epsilon}
