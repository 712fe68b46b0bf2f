"""What a decision of a bandit looks like."""

from dataclasses import dataclass

from glcb._types import Arm, Float64
from glcb.policies.decision import Decision


@dataclass(frozen=True, eq=False, repr=False)
class BanditDecision(Decision):
    """The arm to play, the id by which its reward is reported, and the distribution it was drawn from."""

    id: str
    """Goes with the reward: ``bandit.reward(decision.id, 1.0)``."""
    propensity: float
    """The probability with which this arm was played."""
    arm_probabilities: Float64
    """The probability of each arm, in the order of ``arms``; 0 for those that were not eligible."""
    sampled: bool
    """Whether the policy drew its scores at random: then the probabilities are those given that draw."""

    @property
    def probabilities(self) -> dict[Arm, float]:
        """The probability with which each arm would have been played."""
        return dict(zip(self.arms, self.arm_probabilities.tolist(), strict=True))

    def __repr__(self) -> str:
        rows = zip(self.arms, self.arm_probabilities, self.values, self.bonuses, strict=True)
        lines = [f"  {arm!r}: probability {p:.4g}, value {v:.4g}, bonus {b:.4g}" for arm, p, v, b in rows]
        given = ", sampled=True" if self.sampled else ""
        return "\n".join([f"BanditDecision(arm={self.arm!r}, id={self.id!r}{given})", *lines])
