"""Vowpal Wabbit's RegCB, elimination variant (Foster, Agarwal, Dudík, Luo, Schapire 2018)."""

from collections.abc import Sequence
from typing import Any

from glcb import _validation
from glcb._types import Arm, Rewards
from glcb.policies.registry import register
from glcb.policies.rivals.vowpal_wabbit import VowpalWabbitPolicy


@register("vw-regcb", source="Foster, Agarwal, Dudík, Luo, Schapire 2018; Vowpal Wabbit")
class VWRegCB(VowpalWabbitPolicy):
    """Vowpal Wabbit: a random arm among those whose confidence interval reaches the best lower bound.

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
    mellowness
        The width of the confidence intervals, at least 0.

    References
    ----------
    Foster, Agarwal, Dudík, Luo, Schapire: Practical contextual bandits with regression oracles. ICML, 2018.
    """

    def __init__(
        self,
        arms: int | Sequence[Arm],
        features: int,
        *,
        rewards: Rewards = "binary",
        seed: int = 0,
        mellowness: float = 0.001,
    ) -> None:
        self.mellowness = _validation.number("mellowness", mellowness, 0)
        super().__init__(arms, features, rewards=rewards, seed=seed)

    def _options(self) -> list[str]:
        return ["--regcb", "--mellowness", repr(self.mellowness)]

    def _arguments(self) -> dict[str, Any]:
        return {**super()._arguments(), "mellowness": self.mellowness}
