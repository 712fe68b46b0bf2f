"""The response body of a report."""

from datetime import datetime
from typing import Literal

from msgspec import Struct

from glcb._api.statistics import ArmMean, LiftEstimate


class Report(Struct, frozen=True, kw_only=True, rename={"start": "from", "end": "to"}):
    """A summary of an experiment in a period."""

    text: str
    """The summary in words, for a chat."""
    experiment: str
    """Name of the experiment."""
    state: str
    """Its state."""
    start: datetime
    """Start of the period."""
    end: datetime
    """End of the period."""
    anytime_valid: bool
    """Whether the intervals are valid at any time, which holds if the period starts with the history. With a
    later start, they are valid only if the start was chosen in advance."""
    decisions: int
    """Number of decisions."""
    rewards: int
    """Number of rewards."""
    over: Literal["control", "random"]
    """The baseline of the lift."""
    lift: LiftEstimate | None
    """The lift of the decisions in the period; None without rewards."""
    arms: tuple[ArmMean, ...]
    """The arms in the period, by descending number of decisions."""
    changes: tuple[str, ...]
    """The changes in the period, oldest first."""
    failed_checks: tuple[str, ...]
    """The health checks that fail now."""
