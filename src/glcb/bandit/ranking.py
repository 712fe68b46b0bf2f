"""Rankings: several arms for one context, drawn one after the other without replacement.

The arm of each slot is drawn from the arms not used above, with the probabilities of a single decision among
these arms. So the propensity of a slot is exact, given the slots above it, and the probability of the whole
ranking is the product. Every slot is a separate pending decision: timeouts, default rewards and idempotency
keys apply to each slot.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from glcb._arrays import Float64
from glcb._errors import InvalidInput
from glcb._html import Bar, table, view
from glcb._types import Arm
from glcb.explore.choice import ChoiceRule, certain, distribution, draw
from glcb.policies.decision import Estimates


@dataclass(frozen=True, eq=False, repr=False)
class Ranking:
    """Arms in order, one id for their rewards, and the propensity of every slot.

    Attributes
    ----------
    arms : tuple of str or int
        The arm of each slot, from the top.
    id : str
        Identifies the ranking when a reward arrives: ``bandit.reward(ranking.id, 1.0, slot=0)``.
    propensities : tuple of float
        The probability with which the arm of each slot was chosen, given the arms of the slots above it.
    candidates : tuple of str or int
        The arms that could be chosen.
    slot_probabilities : tuple of numpy.ndarray
        For each slot, the probability of each candidate; 0 for the arms of the slots above it.
    estimates : tuple of Estimates
        For each slot, value, bonus and pseudocount of each candidate.
    sampled : bool
        Whether the policy draws its scores at random. The probabilities are then conditional on that draw.
    """

    arms: tuple[Arm, ...]
    id: str
    propensities: tuple[float, ...]
    candidates: tuple[Arm, ...]
    slot_probabilities: tuple[Float64, ...]
    estimates: tuple[Estimates, ...]
    sampled: bool

    def __len__(self) -> int:
        return len(self.arms)

    def __repr__(self) -> str:
        sampled = ", sampled=True" if self.sampled else ""
        lines = [
            f"  {slot}: {arm!r}, propensity {propensity:.4g}"
            for slot, (arm, propensity) in enumerate(zip(self.arms, self.propensities, strict=True))
        ]
        return "\n".join([f"Ranking(id={self.id!r}{sampled})", *lines])

    def _repr_html_(self) -> str:
        rows = [
            (str(slot), str(arm), Bar(f"{propensity:.4g}", propensity))
            for slot, (arm, propensity) in enumerate(zip(self.arms, self.propensities, strict=True))
        ]
        return view(f"Ranking {self.id}", table(("slot", "arm", "propensity"), rows))


class Slot(NamedTuple):
    """The arm drawn for one slot."""

    chosen: int
    """The index of the arm among the candidates."""
    propensity: float
    probabilities: Float64
    estimates: Estimates


class AffectedSlots(NamedTuple):
    """The effect of a reward on the slots of a ranking."""

    rewarded: tuple[int, ...]
    """The slots that get the reward."""
    default: tuple[int, ...] = ()
    """Slots that were examined without a reward."""
    unexamined: tuple[int, ...] = ()
    """Slots that are dropped, because they were not examined."""


def draw_slots(
    estimate: Callable[[int], Estimates],
    allowed: list[int] | None,
    count: int,
    rule: ChoiceRule,
    point: Callable[[int], float],
    offsets: Float64 | None = None,
    served: Sequence[int] = (),
) -> list[Slot]:
    """Draw the arms of all slots, from the top.

    Share bounds apply to the first slot only: below it, arms used above cannot be chosen.

    Parameters
    ----------
    estimate
        Returns the estimates of all candidates for a slot.
    allowed
        The indices of the candidates to choose from; None allows all.
    count
        Number of slots.
    rule
        How arms are drawn.
    point
        Returns the random number that chooses the arm of a slot.
    offsets
        Numbers to add to the scores of the candidates.
    served
        The indices of the candidates in the first slots, which are not drawn.

    Raises
    ------
    InvalidInput
        If there are fewer candidates than slots.
    """
    slots: list[Slot] = []
    remaining = allowed
    for number in range(count):
        estimates = estimate(number)
        size = estimates.values.size
        if number == 0 and count > (size if allowed is None else len(allowed)):
            available = size if allowed is None else len(allowed)
            raise InvalidInput(
                f"k must be at most the number of candidates, which is {available:,}, got {count:,}"
            )
        if number > 0:
            before = range(size) if remaining is None else remaining
            remaining = [index for index in before if index != slots[-1].chosen]
            rule = rule._replace(bounds=None)
        if number < len(served):
            chosen, shares = served[number], certain(served[number], size)
        else:
            scores = estimates.values + estimates.bonuses
            if offsets is not None:
                scores += offsets
            shares = distribution(scores, estimates.bonuses, rule, remaining)
            chosen = draw(shares, point(number))
        slots.append(Slot(chosen, float(shares[chosen]), shares, estimates))
    return slots
