"""Propensities of rankings: observed against stated frequencies, part of ``make soak``.

    python -m benchmarks.propensities --draws 1000000

The stated probability of a ranking is the product of the propensities of its slots. Rankings of 1, 3 and 5 of
10 arms are drawn a million times each, with distinct values and with ties, and the number of each ranking is
compared with its stated probability by a χ² test.
"""

import argparse
import math
import sys
from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from glcb._arrays import Float64, Int64
from glcb._numba.compile import kernel
from glcb.bandit.ranking import Exploration, slot_probabilities
from glcb.explore.probabilities import _arm_at
from glcb.policies import Estimates

ARMS = 10
LENGTHS = (1, 3, 5)
VALUES: Mapping[str, Float64] = {
    "distinct": np.random.default_rng(0).random(ARMS),
    "ties": np.array([0.5] * 4 + [0.2] * 6),
}
EXPLORATION = Exploration(0.3, "gap", uniform=False, focused=True)
MIN_EXPECTED = 5
"""Rankings with a smaller expected number are counted together."""
MAX_DEVIATION = 4.5
"""Standard deviations of χ² that chance does not explain: about one in 300,000."""


class Comparison(NamedTuple):
    """χ² of observed numbers, and how far it is from what chance explains."""

    chi_square: float
    degrees: int
    deviation: float
    """In standard deviations of a normal distribution, by the approximation of Wilson and Hilferty."""


def compare(observed: Mapping[tuple[int, ...], int], stated: Mapping[tuple[int, ...], float]) -> Comparison:
    """Return χ² of the number of each ranking against its stated probability.

    All rankings that are rare or never occurred are one cell, which has the remaining probability.
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
    spread = 2 / (9 * degrees)
    return Comparison(
        chi_square, degrees, ((chi_square / degrees) ** (1 / 3) - (1 - spread)) / math.sqrt(spread)
    )


@kernel
def _draw_all(shares: Float64, points: Float64, chosen: Int64) -> None:
    for row in range(points.size):
        chosen[row] = _arm_at(shares, points[row])


def draw_rankings(
    values: Float64, length: int, draws: int, seed: int
) -> tuple[Counter[tuple[int, ...]], dict[tuple[int, ...], float]]:
    """Return how often each ranking was drawn, and its stated probability.

    These are the draws of ``draw_slots`` with the same generator. Those with the same slots so far are drawn
    together, so the probabilities of a slot are computed once for all of them.
    """
    estimates = Estimates(values, np.zeros(ARMS), np.ones(ARMS))
    points = np.random.default_rng(seed).random((draws, length))
    observed: Counter[tuple[int, ...]] = Counter()
    stated: dict[tuple[int, ...], float] = {}

    def draw_below(above: tuple[int, ...], probability: float, rows: Int64) -> None:
        if len(above) == length:
            observed[above], stated[above] = rows.size, probability
            return
        remaining = [arm for arm in range(ARMS) if arm not in above] if above else None
        shares = slot_probabilities(estimates, remaining, EXPLORATION)
        chosen = np.empty(rows.size, np.int64)
        _draw_all(shares, np.ascontiguousarray(points[rows, len(above)]), chosen)
        for arm in np.unique(chosen).tolist():
            draw_below((*above, arm), probability * float(shares[arm]), rows[chosen == arm])

    draw_below((), 1.0, np.arange(draws))
    return observed, stated


def main() -> None:
    """Compare all lengths and values, and fail if a frequency differs from its propensity."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--draws", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    differ = False
    for title, values in VALUES.items():
        for length in LENGTHS:
            result = compare(*draw_rankings(values, length, options.draws, options.seed))
            differ |= result.deviation > MAX_DEVIATION
            print(
                f"{title:<9} {length} of {ARMS}: χ² {result.chi_square:,.1f} with {result.degrees:,} degrees "
                f"of freedom, {result.deviation:+.1f} standard deviations",
                flush=True,
            )
    if differ:
        sys.exit("the rankings do not have their stated propensities")


if __name__ == "__main__":
    main()
