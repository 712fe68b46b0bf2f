"""What should be so of an experiment, in plain words, and whether it is. All of it from sums."""

from collections.abc import Iterator
from typing import NamedTuple

from glcb._api.responses import Check
from glcb.service.core.experiment import Experiment
from glcb.service.core.tally import Block

_FEW = 100
"""Below so many decisions or rewards nothing is said."""
_RECENT = 0.25
"""Share of all decisions that are "of late"."""
_FAR = 5.0
"""So many standard deviations are no accident, however often one looks."""
_MOST_OFF = 0.05
"""Predictions may be off by this share of the range of rewards, beside what is due to chance."""
_LEAST_DOUBT = 0.001
_LEAST_JOINED = 0.01
_MOST_ODD = 0.1


class _Sums(NamedTuple):
    """Some blocks taken together."""

    decisions: int
    rewards: int
    total: float
    predicted: float
    own: int
    doubt: float


def checks(seen: Experiment) -> tuple[Check, ...]:
    """Return all checks of an experiment."""
    blocks = seen.around.tally.blocks
    everything = _sums(blocks)
    recent = _sums(_latest(blocks, _RECENT * everything.decisions))
    return (
        _rewards(everything, recent),
        _calibration(seen, recent),
        _exploration(seen, recent),
        _propensities(seen, everything),
        *_contexts(seen),
        _holdout(seen),
    )


def _latest(blocks: list[Block], decisions: float) -> Iterator[Block]:
    """Return the newest blocks that have so many decisions, or a few at least."""
    found = 0
    for block in reversed(blocks):
        if found >= max(decisions, 2 * _FEW):
            return
        found += block.decisions
        yield block


def _sums(blocks: Iterator[Block] | list[Block]) -> _Sums:
    rows = [
        (block.decisions, sum(block.rewards), sum(block.totals), block.predicted, block.own, block.doubt)
        for block in blocks
    ]
    return _Sums(*map(sum, zip(*rows, strict=True))) if rows else _Sums(0, 0, 0.0, 0.0, 0, 0.0)


def _early(check: str, what: str) -> Check:
    return Check(check, None, f"{what}: told after {_FEW} decisions.")


def _rewards(everything: _Sums, recent: _Sums) -> Check:
    if everything.decisions < _FEW:
        return _early("rewards", "Whether rewards find their decisions")
    before = everything.rewards / everything.decisions
    of_late = recent.rewards / recent.decisions
    if before < _LEAST_JOINED:
        text = f"Only {before:.1%} of the decisions have a reward: are they sent, with the right id, in time?"
        return Check("rewards", False, text)
    if of_late < before / 2 and recent.decisions >= 2 * _FEW:
        text = (
            f"Rewards have become rare: {of_late:.0%} of the decisions of late have one, {before:.0%} of all."
        )
        return Check("rewards", False, text)
    return Check("rewards", True, f"{before:.1%} of the decisions have their reward.")


def _calibration(seen: Experiment, recent: _Sums) -> Check:
    if recent.rewards < _FEW:
        return _early("calibration", "Whether predictions come true")
    if recent.predicted == 0:
        return Check("calibration", None, "This policy predicts nothing.")
    low, high = seen.reward_range
    predicted, got = recent.predicted / recent.decisions, recent.total / recent.rewards
    by_chance = _FAR * (high - low) / 2 / recent.rewards**0.5
    ok = abs(predicted - got) <= _MOST_OFF * (high - low) + by_chance
    form = ".1%" if seen.around.settings.rewards == "binary" else ".3g"
    told = f"of late {predicted:{form}} was predicted on average, and {got:{form}} came"
    if ok:
        return Check("calibration", True, f"Predictions come true: {told}.")
    return Check(
        "calibration",
        False,
        f"Predictions are off: {told}. Did the world, or what counts as a reward, change?",
    )


def _exploration(seen: Experiment, recent: _Sums) -> Check:
    if len(seen.bandit.arms) == 1:
        return Check("exploration", None, "There is one arm only: nothing to explore.")
    if recent.own < _FEW:
        return _early("exploration", "Whether other arms are still tried")
    doubt = recent.doubt / recent.own
    if doubt < _LEAST_DOUBT:
        text = "Exploration is dead: the likeliest arm is all but certain, and changes go unnoticed."
        return Check("exploration", False, text)
    return Check(
        "exploration", True, f"Other arms than the likeliest are tried in {doubt:.1%} of the decisions."
    )


def _propensities(seen: Experiment, everything: _Sums) -> Check:
    odd = seen.around.tally.outlook.oddest()
    if odd is None or everything.decisions < _FEW:
        return _early("propensities", "Whether arms are played as often as logged")
    arm, played, expected, apart = odd
    if apart > _FAR:
        text = f"{arm!r} was played {played:,} times, but its logged propensities add up to {expected:,.0f}."
        return Check("propensities", False, text)
    return Check("propensities", True, "Arms are played as often as their logged propensities say.")


def _contexts(seen: Experiment) -> Iterator[Check]:
    # Both are the bandit's own: one that was uploaded brings what it has seen elsewhere.
    schema, decisions = seen.bandit.schema, seen.bandit.counts["decisions"]
    if schema is None or decisions < _FEW:
        return
    odd = sum(schema.problems.values()) / (decisions * max(1, len(schema.features)))
    yield Check(
        "contexts", odd <= _MOST_ODD, f"{odd:.1%} of the values in contexts could not be used as they came."
    )


def _holdout(seen: Experiment) -> Check:
    share = seen.around.settings.holdout
    if share == 0:
        return Check("holdout", None, "Nothing is left to chance: what the bandit brings cannot be told.")
    return Check(
        "holdout", True, f"{share:.1%} of the decisions are left to chance, to tell what the bandit brings."
    )
