"""Observed frequencies against stated propensities, part of ``make soak``.

    python -m benchmarks.propensities --draws 1000000

The stated probability of a ranking is the product of the propensities of its slots. Rankings of 1, 3 and 5 of
10 arms are drawn a million times each, with distinct values and with ties, and the number of each ranking is
compared with its stated probability by a χ² test. So are a million decisions of an experiment of the service,
for each way to restrict a choice.
"""

import argparse
import math
import sys
from collections import Counter
from collections.abc import Hashable, Mapping
from typing import Any, NamedTuple

import msgspec
import numpy as np

from glcb._api.decisions import Decision
from glcb._api.requests import Creation, DecisionRequest, ExperimentSettings, RewardItem
from glcb._arrays import Float64, Int64
from glcb._numba.compile import kernel
from glcb.explore.choice import ChoiceRule, distribution
from glcb.explore.probabilities import arm_at
from glcb.service.core.experiment import Experiment
from glcb.service.core.steering import effective_holdout

ARMS = 10
LENGTHS = (1, 3, 5)
VALUES: Mapping[str, Float64] = {
    "distinct": np.random.default_rng(0).random(ARMS),
    "ties": np.array([0.5] * 4 + [0.2] * 6),
}
RULE = ChoiceRule(0.3, "gap", focused=True)
CONTEXT = {"country": "IT"}
POLICY = "linucb"
"""A policy whose propensities are constant without rewards; GLCB's bonuses grow with the decisions."""
WARM = 200
"""Rewards learned before decisions are counted."""
CHOICES = ["a", "b", "c", "d", "e"]
RESTRICTIONS: Mapping[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "no restriction": ({}, {}),
    "uniform exploration": ({"exploration_mode": "uniform"}, {}),
    "eligible arms": ({}, {"eligible": ["b", "c", "e"]}),
    "shares": ({"shares": {"a": (0.15, 0.25), "b": (0.0, 0.3)}}, {}),
    "shares, eligible arms": ({"shares": {"a": (0.15, 0.25)}}, {"eligible": ["a", "c", "d"]}),
    "paused arms": ({"paused_arms": ["a", "d"]}, {}),
    "holdout": ({"holdout": 0.2}, {}),
    "traffic": ({"holdout": 0.1, "traffic": 0.4}, {}),
    "control": ({"holdout": 0.2, "baseline": "control", "control": "c"}, {}),
    "control of the request": ({"holdout": 0.2, "baseline": "control"}, {"control": "d"}),
    "everything": (
        {
            "holdout": 0.1,
            "traffic": 0.5,
            "baseline": "control",
            "control": "b",
            "paused_arms": ["d"],
            "shares": {"a": (0.1, 0.5)},
        },
        {"eligible": ["a", "b", "c", "d"]},
    ),
}
"""Settings and request fields that restrict the choice."""
MIN_EXPECTED = 5
"""Rankings with a smaller expected count are combined."""
MAX_DEVIATION = 4.5
"""Deviations of χ², in standard deviations, beyond chance: about one in 300,000."""


class Comparison(NamedTuple):
    """χ² of observed counts, and its distance from chance."""

    chi_square: float
    degrees: int
    deviation: float
    """The distance in standard deviations of a normal distribution, by Wilson and Hilferty's
    approximation."""


def compare(observed: Mapping[Any, int], stated: Mapping[Any, float]) -> Comparison:
    """Return χ² of the count of each ranking, or choice, against its stated probability.

    Rare rankings and rankings that never occurred form one cell with the remaining probability.
    """
    draws = sum(observed.values())
    frequent = [ranking for ranking in observed if draws * stated[ranking] >= MIN_EXPECTED]
    counts = [observed[ranking] for ranking in frequent]
    expected = [draws * stated[ranking] for ranking in frequent]
    if draws - sum(expected) >= MIN_EXPECTED:
        counts.append(draws - sum(counts))
        expected.append(draws - sum(expected))
    chi_square = math.fsum((count - mean) ** 2 / mean for count, mean in zip(counts, expected, strict=True))
    degrees = len(counts) - 1
    if not degrees:  # nothing was left to chance
        return Comparison(chi_square, 0, math.inf if chi_square else 0.0)
    spread = 2 / (9 * degrees)
    return Comparison(
        chi_square, degrees, ((chi_square / degrees) ** (1 / 3) - (1 - spread)) / math.sqrt(spread)
    )


@kernel
def _draw_all(shares: Float64, points: Float64, chosen: Int64) -> None:
    for row in range(points.size):
        chosen[row] = arm_at(shares, points[row])


def draw_rankings(
    values: Float64, length: int, draws: int, seed: int
) -> tuple[Counter[tuple[int, ...]], dict[tuple[int, ...], float]]:
    """Return how often each ranking was drawn, and its stated probability.

    The draws equal ``draw_slots`` with the same generator. Rankings with the same slots so far are drawn
    together, so the probabilities of a slot are computed once for all of them.
    """
    points = np.random.default_rng(seed).random((draws, length))
    observed: Counter[tuple[int, ...]] = Counter()
    stated: dict[tuple[int, ...], float] = {}

    def draw_below(above: tuple[int, ...], probability: float, rows: Int64) -> None:
        if len(above) == length:
            observed[above], stated[above] = rows.size, probability
            return
        remaining = [arm for arm in range(ARMS) if arm not in above] if above else None
        shares = distribution(values, np.zeros(ARMS), RULE, remaining)
        chosen = np.empty(rows.size, np.int64)
        _draw_all(shares, np.ascontiguousarray(points[rows, len(above)]), chosen)
        for arm in np.unique(chosen).tolist():
            draw_below((*above, arm), probability * float(shares[arm]), rows[chosen == arm])

    draw_below((), 1.0, np.arange(draws))
    return observed, stated


def draw_decisions(
    settings: Mapping[str, Any], request: Mapping[str, Any], draws: int, seed: int
) -> tuple[Counter[Hashable], dict[Hashable, float]]:
    """Return how often each arm was served, in and outside the holdout, and its stated probability."""
    own = ExperimentSettings(arms=CHOICES, policy=POLICY, exploration=0.3, **settings)
    creation = Creation(name="home", salt=f"salt {seed}", id_prefix="", settings=own)
    experiment, rng = Experiment.create(creation, 0.0)[0], np.random.default_rng(seed)
    asked = DecisionRequest(context=CONTEXT, **request)
    for _ in range(WARM):
        decision = _decide(experiment, asked)
        reward = RewardItem(
            id=decision.id, value=float(rng.random() < 0.2 + 0.1 * CHOICES.index(decision.arm))
        )
        experiment.apply("reward", reward, 1.0)
    held = effective_holdout(own)
    observed: Counter[Hashable] = Counter()
    stated: dict[Hashable, float] = {}
    for _ in range(draws):
        decision = _decide(experiment, asked)
        if decision.overall_propensity is not None:
            choice, probability = (False, decision.arm), decision.overall_propensity
        else:
            group = held if decision.holdout else 1 - held
            choice, probability = (decision.holdout, decision.arm), group * decision.propensity
        if not math.isclose(stated.setdefault(choice, probability), probability):
            raise AssertionError(f"{choice} has several propensities, although nothing was learned")
        observed[choice] += 1
    return observed, stated


def _decide(experiment: Experiment, request: DecisionRequest) -> Decision:
    _, answer = experiment.apply("decide", request, 1.0)
    assert isinstance(answer, bytes)  # the request has no idempotency key
    return msgspec.json.decode(answer, type=Decision)


def main() -> None:
    """Compare all rankings and restrictions, and fail if a frequency differs from its propensity."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--draws", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    differ = False

    def report(title: str, observed: Mapping[Any, int], stated: Mapping[Any, float]) -> None:
        nonlocal differ
        result = compare(observed, stated)
        differ |= result.deviation > MAX_DEVIATION
        print(
            f"{title:<24} χ² {result.chi_square:9,.1f} with {result.degrees:6,} degrees of freedom, "
            f"{result.deviation:+.1f} standard deviations",
            flush=True,
        )

    for title, values in VALUES.items():
        for length in LENGTHS:
            report(
                f"{length} of {ARMS}, {title}", *draw_rankings(values, length, options.draws, options.seed)
            )
    for title, (settings, request) in RESTRICTIONS.items():
        report(title, *draw_decisions(settings, request, options.draws, options.seed))
    if differ:
        sys.exit("the choices do not have their stated propensities")


if __name__ == "__main__":
    main()
