"""Vowpal Wabbit's SquareCB (Foster and Rakhlin 2020), with linear and with quadratic models."""

from collections.abc import Sequence
from typing import Any

from glcb import _validation
from glcb._types import Arm, Rewards
from glcb.policies.registry import register
from glcb.policies.rivals.vowpal_wabbit import VowpalWabbitPolicy

_SOURCE = "Foster, Rakhlin 2020; Vowpal Wabbit"


@register("vw-squarecb", source=_SOURCE)
class VWSquareCB(VowpalWabbitPolicy):
    """Vowpal Wabbit: linear regression; the larger the gap to the best arm, the less likely an arm.

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
    gamma_scale
        How fast exploration decreases, more than 0.

    References
    ----------
    Foster, Rakhlin: Beyond UCB: optimal and efficient contextual bandits with regression oracles. ICML, 2020.
    """

    def __init__(
        self,
        arms: int | Sequence[Arm],
        features: int,
        *,
        rewards: Rewards = "binary",
        seed: int = 0,
        gamma_scale: float = 10.0,
    ) -> None:
        self.gamma_scale = _validation.number("gamma_scale", gamma_scale, 1e-6)
        super().__init__(arms, features, rewards=rewards, seed=seed)

    def _options(self) -> list[str]:
        return ["--squarecb", "--gamma_scale", repr(self.gamma_scale)]

    def _arguments(self) -> dict[str, Any]:
        return {**super()._arguments(), "gamma_scale": self.gamma_scale}


@register("vw-squarecb-quadratic", source=_SOURCE)
class VWSquareCBQuadratic(VWSquareCB):
    """Vowpal Wabbit: SquareCB with weights for all pairs of features, shared by the arms and for each arm.

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
    gamma_scale
        How fast exploration decreases, more than 0.
    """

    quadratic = True
