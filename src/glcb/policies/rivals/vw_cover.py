"""Vowpal Wabbit's online cover (Agarwal, Hsu, Kale, Langford, Li, Schapire 2014)."""

from collections.abc import Sequence
from typing import Any

from glcb import _validation
from glcb._types import Arm, Rewards
from glcb.policies.registry import register
from glcb.policies.rivals.vowpal_wabbit import VowpalWabbitPolicy


@register("vw-cover", source="Agarwal, Hsu, Kale, Langford, Li, Schapire 2014; Vowpal Wabbit")
class VWCover(VowpalWabbitPolicy):
    """Vowpal Wabbit: online cover, several models that are trained to choose different good arms.

    There is no uniform exploration in addition. The weights are learned by coin betting, which has no
    learning rate. The values are the probabilities of the arms, scaled to the reward range: the last of the
    models does not predict rewards.

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
    cover
        The number of models, from 1 to 64.
    psi
        How strongly the models prefer arms that the others do not choose, at least 1e-6.

    References
    ----------
    Agarwal, Hsu, Kale, Langford, Li, Schapire: Taming the monster: a fast and simple algorithm for contextual
    bandits. ICML, 2014.
    """

    predicts_costs = False

    def __init__(
        self,
        arms: int | Sequence[Arm],
        features: int,
        *,
        rewards: Rewards = "binary",
        seed: int = 0,
        cover: int = 4,
        psi: float = 0.1,
    ) -> None:
        self.cover = _validation.integer("cover", cover, 1, 64)
        self.psi = _validation.number("psi", psi, 1e-6)
        super().__init__(arms, features, rewards=rewards, seed=seed)

    def _options(self) -> list[str]:
        # Model files lack a part of the state of Vowpal Wabbit's default optimizer: the scale of each model.
        return ["--cover", str(self.cover), "--psi", repr(self.psi), "--nounif", "--coin"]

    def _copies(self) -> int:
        return 2 * self.cover

    def _arguments(self) -> dict[str, Any]:
        return {**super()._arguments(), "cover": self.cover, "psi": self.psi}
