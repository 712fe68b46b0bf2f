"""UCB1 (Auer, Cesa-Bianchi, Fischer 2002)."""

import math

from glcb._arrays import Float32
from glcb.explore import bonus
from glcb.policies.decision import Estimates
from glcb.policies.registry import register
from glcb.policies.simple.means import MeanPolicy


@register("ucb1", source="Auer, Cesa-Bianchi, Fischer 2002")
class UCB1(MeanPolicy):
    """Mean reward plus √(2 ln t / n), scaled to the reward range; ignores the context.

    Parameters
    ----------
    arms
        The number of arms, or their names.
    features
        The length of a context.
    rewards
        ``"binary"`` for rewards of 0 or 1, or the range ``(low, high)`` of the rewards.
    seed
        Seed of the random numbers that break ties.

    Examples
    --------
    >>> policy = UCB1(arms=["a", "b"], features=1)
    >>> for arm, reward in [("a", 0), ("b", 1)]:
    ...     policy.learn([0.5], arm, reward)
    >>> policy.decide([0.5])
    Decision(arm='b')
      'a': value 0, bonus 1.482, pseudocount 1
      'b': value 1, bonus 1.482, pseudocount 1

    References
    ----------
    Auer, Cesa-Bianchi, Fischer: Finite-time analysis of the multiarmed bandit problem. Machine Learning,
    2002.
    """

    def _estimate(self, x: Float32) -> Estimates:
        counts = self._decision_counts.astype(float)
        scale = math.sqrt(2) * (self._high - self._low)
        return Estimates(self._means.copy(), bonus(counts, self._decisions + 1, scale), counts)
