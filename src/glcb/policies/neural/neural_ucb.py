"""NeuralUCB: optimism about the value of a network, from its gradient (Zhou, Li, Gu 2020)."""

from collections.abc import Sequence

from glcb._arrays import Float32, Float64
from glcb._types import Arm, Rewards
from glcb.policies.neural.neural_tangent import TangentPolicy
from glcb.policies.registry import register


@register("neuralucb", source="Zhou, Li, Gu 2020")
class NeuralUCB(TangentPolicy):
    """Chooses the arm with the largest value of a network plus a bonus from its gradient.

    The bonus is ν · √(λ Σ g² / U): the diagonal form, where each weight has a precision U of its own. Every
    arm is chosen twice first, as in the other neural policies. The network trains on all data after every 50
    rewards, with 100 mini-batches of 64.

    Parameters
    ----------
    arms
        The number of arms, or their names.
    features
        The length of a context.
    rewards
        ``"binary"`` for rewards of 0 or 1, or the range ``(low, high)`` of the rewards.
    seed
        Seed of all random numbers.
    nu
        The size of the exploration bonus, at least 0.

    References
    ----------
    Zhou, Li, Gu: Neural contextual bandits with UCB-based exploration. ICML, 2020.
    """

    def __init__(
        self,
        arms: int | Sequence[Arm],
        features: int,
        *,
        rewards: Rewards = "binary",
        seed: int = 0,
        nu: float = 0.3,
    ) -> None:
        super().__init__(arms, features, rewards=rewards, seed=seed, nu=nu)

    def _predict(self, x: Float32) -> tuple[Float64, Float64]:
        values, widths = self._values_and_widths(x)
        return values, values + self.nu * widths
