"""What the event of a decision records: everything that the state and the statistics need of it.

Recovery counts what was recorded. It draws nothing and estimates nothing, so that it does not depend on how a
processor or a version of a library rounds.
"""

from msgspec import Struct
from msgspec.msgpack import Decoder, Encoder

from glcb.service.core.guard import GuardedDecision
from glcb.service.core.lift import Weights


class SlotRecord(Struct, array_like=True):
    """The slot of a ranking; a decision has one."""

    arm: str
    propensity: float
    """The probability with which the arm was drawn; 1 if it was served."""
    explored: float
    """The bandit's probability of not choosing the most likely arm."""
    overlap: float
    """Probability of the least likely arm, as a share of that of random assignment; holdout included."""
    values: list[float]
    """Predicted reward of each arm; if arms have features, and below the first slot, of the chosen one."""
    probabilities: list[float]
    """Probability of each arm; if arms have features, and below the first slot, the sum over the most likely
    ones."""
    is_likeliest: bool
    """Whether a most likely arm was chosen."""
    weights: Weights | None
    """The weights for the lift, if it can be estimated from this decision."""
    guarded: GuardedDecision | None = None
    """What guardrails and the lift over the control need."""


class DecisionRecord(Struct, array_like=True):
    """A decision or a ranking."""

    id: str
    held_out: bool
    slots: list[SlotRecord]
    agrees: bool | None = None
    """In shadow mode, whether the bandit would have chosen the arm of the first slot."""


encode_record = Encoder().encode
decode_record = Decoder(DecisionRecord).decode
