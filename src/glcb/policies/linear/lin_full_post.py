"""Thompson sampling from linear regressions with unknown noise (Riquelme, Tucker, Snoek 2018)."""

from collections.abc import Sequence
from copy import copy
from typing import Any

from glcb import _validation
from glcb._arrays import Arrays, Float32, Float64, Int64
from glcb._types import Arm, Rewards
from glcb.policies.base import Policy
from glcb.policies.decision import Estimates
from glcb.policies.linear.base import pseudocounts, with_intercept
from glcb.policies.linear.normal_inverse_gamma import PRIOR_PRECISION, NormalInverseGamma
from glcb.policies.registry import register
from glcb.policies.round_robin import force_initial_rounds


@register("linfullpost", source="Riquelme, Tucker, Snoek 2018")
class LinFullPost(Policy):
    """Draws each arm's noise and weights from their full posterior and chooses the best arm for them.

    The posterior is exact and is kept up to date by rank-one updates; no data is stored.

    Parameters
    ----------
    arms, features, rewards, seed
        See :class:`~glcb.policies.base.Policy`.

    Examples
    --------
    >>> policy = LinFullPost(arms=["a", "b"], features=1)
    >>> for _ in range(50):
    ...     policy.learn([0.5], "a", 0)
    ...     policy.learn([0.5], "b", 1)
    >>> policy.decide([0.5]).arm
    'b'

    References
    ----------
    Riquelme, Tucker, Snoek: Deep Bayesian bandits showdown. ICLR, 2018.
    """

    is_randomized = True
    arms_can_change = True

    def __init__(
        self, arms: int | Sequence[Arm], features: int, *, rewards: Rewards = "binary", seed: int = 0
    ) -> None:
        super().__init__(arms, features, rewards=rewards, seed=seed)
        count, width = len(self.arms), self.features + 1
        _validation.check_memory(8 * count * width * width, "One matrix per arm")
        self._posterior = NormalInverseGamma(count, width)

    def _estimate(self, x: Float32) -> Estimates:
        z = with_intercept(x)
        means, widths = self._posterior.means_and_widths(z)
        bonuses = self._posterior.draw(means, widths, self._rng) - means
        counts = pseudocounts(z, widths, PRIOR_PRECISION)
        return Estimates(means, force_initial_rounds(bonuses, self._decisions), counts)

    def _contributions(self, x: Float32, baseline: Float32) -> tuple[Float64, Float64]:
        origin = with_intercept(baseline)
        bases, _ = self._posterior.means_and_widths(origin)
        return bases, (self._posterior.means * (with_intercept(x) - origin))[:, :-1]

    def _learn(self, x: Float32, arm: int, reward: float) -> None:
        self._posterior.learn(with_intercept(x), arm, reward)

    def _reordered(self, sources: Int64) -> dict[str, Any]:
        posterior = copy(self._posterior)
        posterior.reorder(sources)
        return {"_posterior": posterior}

    def _snapshot(self) -> Arrays:
        return self._posterior.snapshot()
