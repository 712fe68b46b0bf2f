"""Decisions and rankings as the service returns them."""

from msgspec import Struct

from glcb._html import Bar, table, view


class Decision(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A decision: the chosen arm and the probability of each arm."""

    id: str
    """The id to send the reward to."""
    arm: str
    """The chosen arm."""
    propensity: float
    """The probability with which this arm was chosen."""
    probabilities: dict[str, float]
    """The probability of each arm of the experiment, or, if arms have features, of the 100 most likely
    candidates."""
    holdout: bool
    """Whether the decision belongs to the holdout, which is served random arms or the control."""
    candidates: int | None = None
    """Number of candidates, if arms have features."""
    control: str | None = None
    """The control arm of this decision, if it has one that is eligible."""
    overall_propensity: float | None = None
    """The probability of serving the arm, over the bandit and the holdout. Only if the holdout is
    served the control, and in shadow mode."""
    shadow: str | None = None
    """In shadow mode, the arm that the bandit would have chosen."""
    bounded: bool = False
    """Whether a share limits the probability of an arm."""

    @property
    def arms(self) -> tuple[str, ...]:
        """All arms of the experiment at the time of the decision, or the most likely candidates."""
        return tuple(self.probabilities)

    def _repr_html_(self) -> str:
        rows = [(arm, Bar(f"{p:.4g}", p)) for arm, p in self.probabilities.items()]
        holdout = " (holdout)" if self.holdout else ""
        chosen = [number for number, (arm, _) in enumerate(rows) if arm == self.arm]
        return view(f"Decision {self.id}: {self.arm}{holdout}", table(("arm", "probability"), rows, chosen))


class Ranking(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Several different arms in order, with one id for their rewards."""

    id: str
    """The id to send the rewards to."""
    arms: tuple[str, ...]
    """The arm of each slot, from the top."""
    propensities: tuple[float, ...]
    """The probability with which the arm of each slot was chosen, given the arms of the slots above it."""
    holdout: bool
    """Whether the ranking belongs to the holdout, which is served random arms or the control."""
    candidates: int
    """Number of candidates."""
    control: tuple[str, ...] = ()
    """The control of this ranking: the arms of the first slots."""
    overall_propensities: tuple[float, ...] = ()
    """The probability of serving each slot's arm, given the arms above it, over the bandit and the
    holdout."""
    shadow: tuple[str, ...] = ()
    """In shadow mode, the arms that the bandit would have chosen."""
    bounded: bool = False
    """Whether a share limits the probability of an arm in the first slot."""


class PublicDecision(Struct, frozen=True):
    """The part of a decision that a publishable key can see."""

    id: str
    """The id to send the reward to."""
    arm: str
    """The chosen arm."""


class PublicRanking(Struct, frozen=True):
    """The part of a ranking that a publishable key can see."""

    id: str
    """The id to send the rewards to."""
    arms: tuple[str, ...]
    """The arm of each slot, from the top."""
