"""The decision of a bandit, with its probabilities."""

from dataclasses import dataclass

from glcb._arrays import Float64
from glcb._html import Bar, paragraph, table, view
from glcb._types import Arm
from glcb.policies.decision import Decision, Estimates


@dataclass(frozen=True, eq=False, repr=False, init=False)
class BanditDecision(Decision):
    """The chosen arm, the id for its reward, and the probabilities it was drawn from.

    Attributes
    ----------
    arm : str or int
        The chosen arm.
    id : str
        Identifies the decision when its reward arrives: ``bandit.reward(decision.id, 1.0)``.
    propensity : float
        The probability with which this arm was chosen.
    arm_probabilities : numpy.ndarray
        The probability of each arm, in the order of ``arms``; 0 for arms that were not eligible.
    sampled : bool
        Whether the policy draws its scores at random. The probabilities are then conditional on that draw.
    """

    id: str
    propensity: float
    arm_probabilities: Float64
    sampled: bool

    def __init__(
        self,
        arm: Arm,
        arms: tuple[Arm, ...],
        estimates: Estimates,
        id: str,  # noqa: A002 (the name of the attribute)
        propensity: float,
        arm_probabilities: Float64,
        sampled: bool,
    ) -> None:
        # Twice as fast as the one of a frozen dataclass, which sets one attribute at a time.
        vars(self).update(
            arm=arm,
            arms=arms,
            estimates=estimates,
            id=id,
            propensity=propensity,
            arm_probabilities=arm_probabilities,
            sampled=sampled,
        )

    @property
    def probabilities(self) -> dict[Arm, float]:
        """The probability of each arm, by name."""
        return dict(zip(self.arms, self.arm_probabilities.tolist(), strict=True))

    def __repr__(self) -> str:
        rows = zip(self.arms, self.arm_probabilities, self.values, self.bonuses, strict=True)
        lines = [f"  {arm!r}: probability {p:.4g}, value {v:.4g}, bonus {b:.4g}" for arm, p, v, b in rows]
        sampled = ", sampled=True" if self.sampled else ""
        return "\n".join([f"BanditDecision(arm={self.arm!r}, id={self.id!r}{sampled})", *lines])

    def _repr_html_(self) -> str:
        rows = [
            (str(arm), Bar(f"{p:.4g}", p), f"{value:.4g}", f"{bonus:.4g}")
            for arm, p, value, bonus in zip(
                self.arms, self.arm_probabilities.tolist(), self.values, self.bonuses, strict=True
            )
        ]
        sampled = paragraph("The scores are a random draw; the probabilities depend on it.")
        return view(
            f"Decision {self.id}: {self.arm}",
            table(("arm", "probability", "value", "bonus"), rows, [self.arms.index(self.arm)]),
            sampled if self.sampled else "",
        )
