"""How decisions and rankings are counted, and how those among arms with features are answered.

Every slot of a ranking is a decision among the candidates that no slot above has. It counts as such in all
statistics: its arm is chosen given the slots above it, so that its propensity, and its lift over a random
choice among the same candidates, are exact.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from msgspec import Struct

from glcb._api.requests import DecisionRequest, ExperimentSettings
from glcb._arrays import Float64
from glcb.bandit.decision import BanditDecision
from glcb.bandit.ranking import Exploration, Ranking, slot_probabilities
from glcb.bandit.slots import slot_id
from glcb.explore.probabilities import probabilities
from glcb.service.core.open_decisions import OpenDecision
from glcb.service.core.tally import DecisionRecord
from glcb.service.lift import weights

NO_OUTCOME = b"{}"
"""The outcome of an event that returns nothing, such as the reward of a single decision."""
MAX_LISTED = 100
"""So many of the most likely candidates are in the answer to a decision."""


class SlotRewards(Struct):
    """The outcome of a reward for a ranking: what was learned for each slot."""

    rewards: list[tuple[int, float]]
    """Slots with their rewards; default rewards are the last ones."""
    reported: int
    """Number of rewards that are not default rewards."""
    unexamined: list[int]
    """Slots from which nothing is learned."""


class CountedSlot(NamedTuple):
    """A slot as the statistics count it."""

    id: str
    opened: OpenDecision
    record: DecisionRecord


def has_catalog(settings: ExperimentSettings) -> bool:
    """Return whether the arms of an experiment have features."""
    return isinstance(settings.arms, dict)


def most_likely(ranking: Ranking) -> dict[str, float]:
    """Return the probability of each candidate for the first slot, or of the most likely ones."""
    names, shares = ranking.candidates, ranking.slot_probabilities[0]
    indices = np.arange(len(names))
    if len(names) > MAX_LISTED:
        likely = np.argsort(-shares, kind="stable")[:MAX_LISTED]
        chosen = names.index(ranking.arms[0])
        indices = np.sort(likely if chosen in likely else np.append(likely[:-1], chosen))
    return {str(names[index]): float(shares[index]) for index in indices}


def count_decision(
    decision: BanditDecision,
    settings: ExperimentSettings,
    request: DecisionRequest,
    held_out: bool,
    now: float,
    predicts: bool,
) -> CountedSlot:
    """Return a decision among arms without features. The arguments are those of :func:`count_slots`."""
    arms: tuple[str, ...] = decision.arms  # type: ignore[assignment]  # arms are strings here
    chosen = arms.index(str(decision.arm))
    allowed = None if request.eligible is None else sorted(map(arms.index, set(request.eligible)))
    actual, values = decision.arm_probabilities.tolist(), decision.values.tolist()
    own = actual
    if held_out:  # what the bandit would have done
        mode = settings.exploration_mode
        own = probabilities(decision.scores, allowed, settings.exploration, mode).tolist()
    eligible = own if allowed is None else [own[arm] for arm in allowed]
    lowest, highest, n = min(eligible), max(eligible), len(eligible)
    opened = OpenDecision(
        arms[chosen],
        held_out,
        now,
        values[chosen] if predicts else None,
        weights(own[chosen], lowest, highest, n, settings.holdout),
    )
    overlap = settings.holdout + (1 - settings.holdout) * lowest * n
    record = DecisionRecord(arms, chosen, actual, values, held_out, 1 - highest, overlap, request.context)
    return CountedSlot(decision.id, opened, record)


def count_slots(
    ranking: Ranking,
    settings: ExperimentSettings,
    context: Any,
    eligible: list[str] | None,
    held_out: bool,
    now: float,
    predicts: bool,
) -> Iterator[CountedSlot]:
    """Yield the slots of a ranking, from the top.

    Parameters
    ----------
    ranking
        The ranking.
    settings
        The settings of its experiment.
    context, eligible
        As requested. If arms have features, the candidates of the ranking are eligible.
    held_out
        Whether the arms were drawn uniformly at random.
    now
        The time.
    predicts
        Whether the predictions are to be judged by the rewards.
    """
    shared = has_catalog(settings)
    arms: tuple[str, ...] = ranking.candidates  # type: ignore[assignment]  # arms are strings here
    index = {arm: position for position, arm in enumerate(arms)}
    remaining = list(range(len(arms)))
    if eligible is not None and not shared:
        remaining = sorted({index[arm] for arm in eligible})
    exploration = Exploration(settings.exploration, settings.exploration_mode, uniform=False, focused=shared)
    for slot, (arm, actual, estimates) in enumerate(
        zip(ranking.arms, ranking.slot_probabilities, ranking.estimates, strict=True)
    ):
        chosen = index[str(arm)]
        own: Float64 = actual  # what the bandit would have done
        if held_out:
            own = slot_probabilities(estimates, remaining, exploration)
        lowest, highest, n = float(own[remaining].min()), float(own[remaining].max()), len(remaining)
        opened = OpenDecision(
            arms[chosen],
            held_out,
            now,
            float(estimates.values[chosen]) if predicts else None,
            weights(float(own[chosen]), lowest, highest, n, settings.holdout),
        )
        record = DecisionRecord(
            arms,
            chosen,
            actual if shared else actual.tolist(),
            estimates.values if shared else estimates.values.tolist(),
            held_out,
            1 - highest,
            settings.holdout + (1 - settings.holdout) * lowest * n,
            context,
            slot == 0,
        )
        yield CountedSlot(slot_id(ranking.id, slot), opened, record)
        remaining.remove(chosen)
