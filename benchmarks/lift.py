"""The confidence interval of the lift: its coverage, and how many decisions it needs.

    python -m benchmarks.lift coverage
    python -m benchmarks.lift decisions
    python -m benchmarks.lift holdout
    python -m benchmarks.lift segments

``coverage`` simulates experiments in which the bandit learns, and reports the share of them in which the
interval contained the true lift so far after every decision, and its width at the end, as a share of that of
an empirical Bernstein interval, which depends on the declared range of the rewards. A reward is a conversion,
or the revenue of one: lognormal (median 30, σ = 1) up to a declared maximum of 200. ``decisions`` counts the
decisions until the interval excludes zero, for a bandit that has learned, and compares with the interval of
the holdout alone (stitched empirical Bernstein bounds of both groups, as in version 0.2). ``holdout`` does so
for other sizes of the holdout. ``segments`` simulates experiments without any lift, and reports the share of
them in which the interval of any segment excluded zero at any look: with the correction for the number of
segments, without it, and with the fixed-horizon interval.
"""

import argparse
import math
import statistics
from collections.abc import Callable, Iterator
from random import Random
from typing import NamedTuple

import numpy as np

from glcb._arrays import Float64
from glcb.evaluate.sequences import boundaries
from glcb.service.core.lift import CONFIDENCE, MAX_WEIGHT, LiftSums, Weights, intervals
from glcb.service.core.open_decisions import OpenDecision
from glcb.service.core.segments import Segments
from glcb.service.core.sums import MAX_ARMS
from glcb.service.core.vitals import MIN_DECISIONS

ARMS, EXPLORATION, HOLDOUT = 6, 0.05, 0.05
LARGEST = 200.0
_NORMAL = statistics.NormalDist()
MEAN_AMOUNT = 30 * math.exp(0.5) * _NORMAL.cdf(math.log(LARGEST / 30) - 1) / LARGEST + _NORMAL.cdf(
    -math.log(LARGEST / 30)
)
"""The mean revenue of a conversion, as a share of the largest."""


def weights(chosen: float, lowest: float, highest: float, arms: int, holdout: float) -> Weights | None:
    """Return the importance weights of a decision, or None if its lift cannot be estimated.

    Parameters
    ----------
    chosen, lowest, highest
        The bandit's probability of the chosen arm, and its smallest and largest probability of an eligible
        arm.
    arms
        Number of eligible arms. All but one have the smallest probability.
    holdout
        Share of the decisions that are uniformly random.

    Examples
    --------
    >>> weights(chosen=0.05, lowest=0.05, highest=0.95, arms=2, holdout=0.0)
    Weights(lift=-9.0, random=10.0, lowest=-9.0, highest=0.47368421052631576, spread=4.26..., ...)
    >>> weights(chosen=1.0, lowest=0.0, highest=1.0, arms=2, holdout=0.0) is None
    True
    """
    uniform = 1 / arms
    random, own = holdout * uniform, 1 - holdout
    rarest = random + own * lowest
    if rarest <= 0 or uniform - lowest > MAX_WEIGHT * rarest:
        return None
    actual, largest = random + own * chosen, random + own * highest
    spread = (highest - uniform) ** 2 / largest + (arms - 1) * (lowest - uniform) ** 2 / rarest
    return Weights(
        (chosen - uniform) / actual,
        uniform / actual,
        min((lowest - uniform) / rarest, 0.0),
        max((highest - uniform) / largest, 0.0),
        spread,
    )


# ---- coverage -------------------------------------------------------------------------------------

Means = Callable[[float], Float64]
"""The expected reward of each arm, by elapsed share of the experiment."""

_BEST = np.array([0.1, 0.04, 0.04, 0.04, 0.04, 0.04])
WORLDS: dict[str, Means] = {
    "no lift": lambda _: np.full(ARMS, 0.05),
    "constant": lambda _: _BEST,
    "daily cycle": lambda t: _BEST * (1 + 0.9 * math.sin(20 * t)),
    "the best arm changes": lambda t: np.roll(_BEST, int(4 * t)),
    "rates rise tenfold": lambda t: _BEST if t < 0.5 else 10 * np.roll(_BEST, 3) * 0.95,
    "rates fall to a tenth": lambda t: np.roll(5 * _BEST, 2) if t < 0.3 else 0.5 * _BEST,
}


class Step(NamedTuple):
    """One decision in each of the simulated experiments."""

    rewards: Float64
    chosen: Float64
    """The bandit's probability of the chosen arm."""
    predicted: Float64
    """The prediction for the chosen arm."""
    modeled: Float64
    """The lift that the predictions of all arms imply."""
    lowest: float
    highest: float
    lift: Float64
    """The true lift."""


def simulate(
    means: Means, runs: int, decisions: int, holdout: float, seed: int, revenue: bool, exploration: float
) -> Iterator[Step]:
    """Simulate experiments with a bandit that follows the means of its recent rewards."""
    unit = MEAN_AMOUNT if revenue else 1.0
    rng, every = np.random.default_rng(seed), np.arange(runs)
    estimates = np.full((runs, ARMS), 0.5)
    for step in range(decisions):
        expected = means(step / decisions)
        own = np.full((runs, ARMS), exploration / (ARMS - 1))
        own[every, estimates.argmax(axis=1)] = 1 - exploration
        actual = holdout / ARMS + (1 - holdout) * own
        arms = (actual.cumsum(axis=1) < rng.random((runs, 1))).sum(axis=1).clip(max=ARMS - 1)
        rewards = (rng.random(runs) < expected[arms]).astype(float)
        if revenue:
            rewards *= np.minimum(rng.lognormal(math.log(30 / LARGEST), 1.0, runs), 1.0)
        difference, predicted = own - 1 / ARMS, estimates[every, arms]
        modeled = (difference * estimates).sum(axis=1)
        estimates[every, arms] += 0.02 * (rewards - estimates[every, arms])
        lift = unit * (difference @ expected)
        yield Step(rewards, own[every, arms], predicted, modeled, float(own.min()), float(own.max()), lift)


class Coverage(NamedTuple):
    """How good an interval is."""

    covered: float
    """Share of the experiments whose interval contained the true lift at every look."""
    width: float
    """Median width at the end, as a share of that of the empirical Bernstein interval."""


def coverage(
    world: str,
    runs: int,
    decisions: int,
    every: int,
    seed: int,
    revenue: bool = False,
    exploration: float = EXPLORATION,
) -> Coverage:
    """Simulate experiments, and look at the interval of each after so many decisions."""
    steps = simulate(WORLDS[world], runs, decisions, HOLDOUT, seed, revenue, exploration)
    sums, truth, found = [LiftSums() for _ in range(runs)], np.zeros(runs), dict[float, Weights | None]()
    covered = np.ones(runs, bool)
    for number, step in enumerate(steps, 1):
        truth += step.lift
        for chosen in np.unique(step.chosen).tolist():
            found[chosen] = weights(chosen, step.lowest, step.highest, ARMS, HOLDOUT)
        columns = (step.rewards, step.chosen, step.modeled, step.predicted)
        rows = zip(sums, *map(np.ndarray.tolist, columns), strict=True)
        for own, reward, chosen, modeled, predicted in rows:
            known = found[chosen]
            assert known is not None  # the holdout ensures weights
            known.modeled, known.predicted = modeled, predicted
            own.add(reward, known, judged=number > MIN_DECISIONS)
        if number % every == 0:
            looks = [
                run
                for run in np.flatnonzero(covered).tolist()
                if abs(sums[run].lift - truth[run]) > 2.5 * math.sqrt(sums[run].squares)
            ]  # the others are well inside the interval
            for run, interval in zip(looks, intervals([sums[run] for run in looks]), strict=True):
                low, high = interval or (-1.0, 1.0)
                covered[run] = low <= truth[run] / number <= high
    widths = [high - low for low, high in filter(None, intervals(sums))]
    return Coverage(float(covered.mean()), statistics.median(widths) / statistics.median(_bernstein(sums)))


def _bernstein(sums: list[LiftSums]) -> list[float]:
    """Return the widths of empirical Bernstein intervals."""
    squares, count = np.array([one.squares for one in sums]), sums[0].n
    ends = [np.array([getattr(one, side) for one in sums]) for side in ("below", "above")]
    widths: list[float] = sum(boundaries(squares, one, (1 - CONFIDENCE) / 2) for one in ends).tolist()  # type: ignore[union-attr]
    return [min(width / count, 2.0) for width in widths]


# ---- decisions until the interval excludes zero ---------------------------------------------------

_LOOK = 50
"""Decisions between two looks."""
LIFTS = ((0.048, 0.086), (0.02, 0.03), (0.45, 0.50))
"""Expected rewards of random assignment and of the bandit."""


def decisions_needed(random: float, bandit: float, holdout: float, exploration: float, seed: int) -> int:
    """Return the number of decisions until the interval of the lift excludes zero."""
    sums = LiftSums()
    own, expected = _learned(random, bandit, exploration)
    found = [weights(p, own.min(), own.max(), ARMS, holdout) for p in own.tolist()]
    rng = np.random.default_rng(seed)
    while True:
        arms = rng.choice(ARMS, _LOOK, p=holdout / ARMS + (1 - holdout) * own)
        rewards = (rng.random(_LOOK) < expected[arms]).astype(float)
        for arm, reward in zip(arms.tolist(), rewards.tolist(), strict=True):
            own_weights = found[arm]
            assert own_weights is not None
            sums.add(reward, own_weights)
        (interval,) = intervals([sums])
        if interval is not None and interval[0] > 0:
            return sums.n


def _learned(random: float, bandit: float, exploration: float) -> tuple[Float64, Float64]:
    """Return the probabilities of a trained bandit, and expected rewards with these means."""
    own = np.full(ARMS, exploration / (ARMS - 1))
    own[0] = 1 - exploration
    means = np.array([[1 - exploration, exploration], [1 / ARMS, 1 - 1 / ARMS]])
    best, other = np.linalg.solve(means, [bandit, random])
    expected = np.full(ARMS, other)
    expected[0] = best
    return own, expected


def decisions_needed_before(random: float, bandit: float, holdout: float, seed: int) -> int:
    """Return the number of decisions for the difference of the two groups, with stitched boundaries."""
    rng = np.random.default_rng(seed)
    n, total, squares = [0, 0], [0.0, 0.0], [0.0, 0.0]
    while True:
        groups = (rng.random(_LOOK) < holdout).astype(int)
        rewards = (rng.random(_LOOK) < np.array([bandit, random])[groups]).astype(float)
        for group, reward in zip(groups.tolist(), rewards.tolist(), strict=True):
            squares[group] += (reward - (0.5 + total[group]) / (1 + n[group])) ** 2
            n[group] += 1
            total[group] += reward
        if min(n):
            ends = [_stitched(squares[group], 0.0125) / n[group] for group in (0, 1)]
            if total[0] / n[0] - ends[0] > total[1] / n[1] + ends[1]:
                return sum(n)


def _stitched(squares: float, error: float) -> float:
    v = max(squares, 10.0)
    level = 1.4 * math.log(math.log2(v / 10.0) + 1) + math.log(3.105547 / error)
    k1, k2 = (2**0.25 + 2**-0.25) / math.sqrt(2), (math.sqrt(2) + 1) / 2
    return math.sqrt(k1**2 * v * level + (k2 * level) ** 2) + k2 * level


# ---- segments -------------------------------------------------------------------------------------


class Errors(NamedTuple):
    """Whether any interval of any segment excluded the true lift, which is zero."""

    corrected: bool
    uncorrected: bool
    fixed: bool
    """The fixed-horizon interval, without a correction."""


def segment_errors(decisions: int, every: int, seed: int) -> Errors:
    """Simulate an experiment without lift and with eight features; look at its segments now and then.

    The bandit follows the mean reward of each arm in each country, so its choices depend on past rewards.
    """
    rng, own = Random(seed), Segments(0.0).changed(None, None, 0.0)
    means = {country: [0.5] * ARMS for country in ("FR", "DE", "US")}
    corrected = uncorrected = fixed = False
    for step in range(1, decisions + 1):
        country = rng.choices(list(means), (5, 3, 1))[0]
        context = {
            "country": country,
            "device": rng.choice(["phone", "tablet", "desktop"]),
            "browser": rng.choice("abcdef"),
            "page": f"p{int(rng.expovariate(0.1))}",
            "member": rng.random() < 0.3,
            "age": rng.randrange(18, 80),
            "visits": int(rng.expovariate(0.3)),
            "price": rng.random(),
        }
        best = max(range(ARMS), key=means[country].__getitem__)
        probabilities = [EXPLORATION / (ARMS - 1)] * ARMS
        probabilities[best] = 1 - EXPLORATION
        is_held_out = rng.random() < HOLDOUT
        arm = rng.randrange(ARMS) if is_held_out else rng.choices(range(ARMS), probabilities)[0]
        reward = float(rng.random() < 0.2)
        means[country][arm] += 0.02 * (reward - means[country][arm])
        found = weights(probabilities[arm], min(probabilities), max(probabilities), ARMS, HOLDOUT)
        opened = OpenDecision(str(arm), is_held_out, float(step), None, found)
        _, segments = own.add_decision(context, opened.decided_at)
        for sums in segments:
            sums.add_decision(opened.arm, MAX_ARMS)
            sums.add_reward(opened, reward, reward)
        if step % every:
            continue
        for feature in own.chosen().values():
            if feature.has_intervals:
                lifts = [one.sums.lift for one in own.of(feature)]
                level = 1 - (1 - CONFIDENCE) / own.comparisons(feature)
                corrected |= _excludes_zero(intervals(lifts, level))
                uncorrected |= _excludes_zero(intervals(lifts))
                fixed |= _excludes_zero([one.fixed_interval() for one in lifts if one.n > 20])
    return Errors(corrected, uncorrected, fixed)


def _excludes_zero(ends: list[tuple[float, float] | None]) -> bool:
    return any(one is not None and not one[0] <= 0 <= one[1] for one in ends)


def print_segments(runs: int, decisions: int) -> None:
    """Print the family-wise error rates."""
    print(f"{runs:,} experiments of {decisions:,} decisions, 8 features, a look every 100 decisions\n")
    found = [segment_errors(decisions, 100, seed) for seed in range(runs)]
    print("| interval | experiments with a false alarm in any segment |")
    print("|:--|--:|")
    for name in Errors._fields:
        count = sum(getattr(one, name) for one in found)
        print(f"| {name} | {count} of {runs} ({count / runs:.1%}) |", flush=True)


# ---- tables ---------------------------------------------------------------------------------------


def print_coverage(runs: int, decisions: int, exploration: float) -> None:
    """Print the coverage in each world."""
    print(
        f"{runs:,} experiments of {decisions:,} decisions, holdout {HOLDOUT:.0%}, "
        f"exploration {exploration:.0%}, a look at every decision\n"
    )
    print("| rewards | rates | covered at every look | width |")
    print("|:--|:--|--:|--:|")
    for revenue in (False, True):
        for world in WORLDS:
            found = coverage(world, runs, decisions, 1, seed=0, revenue=revenue, exploration=exploration)
            kind = "revenue" if revenue else "conversions"
            print(f"| {kind} | {world} | {found.covered:.2%} | {found.width:.2f} |", flush=True)


def print_decisions(runs: int) -> None:
    """Print the median number of decisions, before and now."""
    print(f"Median of {runs} runs, {ARMS} arms, holdout {HOLDOUT:.0%}, seeds from 0\n")
    print("| bandit and random | holdout alone, stitched | all decisions | without exploration |")
    print("|:--|--:|--:|--:|")
    for random, bandit in LIFTS:
        before = [decisions_needed_before(random, bandit, HOLDOUT, seed) for seed in range(runs)]
        cells = [before] + [
            [decisions_needed(random, bandit, HOLDOUT, exploration, seed) for seed in range(runs)]
            for exploration in (EXPLORATION, 0.0)
        ]
        medians = " | ".join(f"{statistics.median(cell):,.0f}" for cell in cells)
        print(f"| {bandit:.1%} and {random:.1%} | {medians} |", flush=True)


def print_holdout(runs: int) -> None:
    """Print the median number of decisions by the size of the holdout, for a relative lift of 50 %."""
    print(f"Median of {runs} runs, {ARMS} arms, exploration {EXPLORATION:.0%}, relative lift 50%\n")
    sizes, rates = (0.01, 0.02, 0.05, 0.1, 0.2), (0.01, 0.05, 0.2)
    print("| holdout | " + " | ".join(f"reward rate {rate:.0%}" for rate in rates) + " |")
    print("|--:|" + "--:|" * len(rates))
    for size in sizes:
        cells = [
            statistics.median(decisions_needed(r, 1.5 * r, size, EXPLORATION, seed) for seed in range(runs))
            for r in rates
        ]
        print(f"| {size:.0%} | " + " | ".join(f"{cell:,.0f}" for cell in cells) + " |", flush=True)


def main() -> None:
    """Print one of the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("table", choices=["coverage", "decisions", "holdout", "segments"])
    parser.add_argument("--runs", type=int)
    parser.add_argument("--decisions", type=int, default=2000)
    parser.add_argument("--exploration", type=float, default=EXPLORATION)
    arguments = parser.parse_args()
    if arguments.table == "coverage":
        print_coverage(arguments.runs or 2000, arguments.decisions, arguments.exploration)
    elif arguments.table == "segments":
        print_segments(arguments.runs or 500, arguments.decisions)
    elif arguments.table == "decisions":
        print_decisions(arguments.runs or 200)
    else:
        print_holdout(arguments.runs or 50)


if __name__ == "__main__":
    main()
