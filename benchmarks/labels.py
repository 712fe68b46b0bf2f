"""The bias of learning from delayed clicks: at the label age, and as soon as each outcome is known.

    python -m benchmarks.labels --seeds 10

A visitor arrives every nine seconds and sees one of two arms at random. Clicks on one arm are reported after
5 minutes on average, on the other after 25. Most visitors click with a probability of 2%, others of 20%. A
click that is not reported within two hours counts as none. The bias is the relative difference between the
mean of the learned rewards and the mean of the true rewards.
"""

import argparse
import heapq
from collections import Counter, defaultdict
from typing import Any, Literal, NamedTuple
from unittest.mock import patch

import numpy as np

from glcb import Bandit, Uniform
from glcb.bench.statistics import mean_and_error

DELAYS = {"fast": 300.0, "slow": 1500.0}
"""Mean delay of the report of a click, in seconds, by arm."""
CLICK_RATES = (0.02, 0.2)
FREQUENT = 0.3
"""Share of the visitors with the higher click rate."""
TIMEOUT = 7200.0
HOURS = (6, 24)
VISITS_PER_HOUR = 400

LearnedAt = Literal["label age", "as known"]


class Group(NamedTuple):
    """Decisions for an arm and visitors with the same click rate."""

    arm: str
    kind: int
    """Index of the click rate."""


GROUPS = [Group(arm, kind) for arm in DELAYS for kind in range(len(CLICK_RATES))]


class Means:
    """Means by group."""

    def __init__(self) -> None:
        self._sums: defaultdict[Group, float] = defaultdict(float)
        self._counts: Counter[Group] = Counter()

    def add(self, group: Group, value: float) -> None:
        """Add one value."""
        self._sums[group] += value
        self._counts[group] += 1

    def of(self, group: Group) -> float:
        """Return the mean of a group."""
        return self._sums[group] / self._counts[group]


def biases(learned_at: LearnedAt, seed: int) -> list[dict[Group, float]]:
    """Return the bias in every group at each of ``HOURS``."""
    rng, now = np.random.default_rng(seed), 0.0
    learned, rewarded = Means(), Means()
    rules: dict[str, Any] = {"reward_timeout": TIMEOUT, "default_reward": 0, "clock": lambda: now}
    bandit = Bandit(
        list(DELAYS),
        policy="uniform",
        schema={"kind": (0, 1)},
        max_pending=100_000,
        seed=seed,
        **(rules if learned_at == "label age" else {}),
    )
    reports: list[tuple[float, str, int]] = []
    result = []

    def record(_policy: Uniform, x: np.ndarray, arm: int, reward: float) -> None:
        learned.add(Group(list(DELAYS)[arm], round(float(x[0]))), reward)

    with patch.object(Uniform, "_learn", record):
        for visit in range(max(HOURS) * VISITS_PER_HOUR):
            visit_at = visit * 3600 / VISITS_PER_HOUR
            while reports and reports[0][0] <= visit_at:
                now, decision_id, reward = heapq.heappop(reports)
                bandit.reward(decision_id, reward)
            now = visit_at
            kind = int(rng.random() < FREQUENT)
            decision = bandit.decide({"kind": kind})
            arm, delay = str(decision.arm), rng.exponential(DELAYS[str(decision.arm)])
            clicked = rng.random() < CLICK_RATES[kind] and delay <= TIMEOUT
            rewarded.add(Group(arm, kind), clicked)
            if clicked:
                heapq.heappush(reports, (visit_at + delay, decision.id, 1))
            elif learned_at == "as known":
                heapq.heappush(reports, (visit_at + TIMEOUT, decision.id, 0))
            if (visit + 1) % VISITS_PER_HOUR == 0 and (visit + 1) // VISITS_PER_HOUR in HOURS:
                result.append({group: learned.of(group) / rewarded.of(group) - 1 for group in GROUPS})
    return result


def main() -> None:
    """Print the biases."""
    parser = argparse.ArgumentParser(description="Measure the bias of learning from delayed clicks.")
    parser.add_argument("--seeds", type=int, default=10, metavar="N", help="number of repetitions")
    seeds = range(parser.parse_args().seeds)
    print("| after | arm | click rate | as soon as known, % | at the label age, % |")
    print("|:--|:--|--:|--:|--:|")
    results = {
        learned_at: [biases(learned_at, seed) for seed in seeds] for learned_at in ("as known", "label age")
    }
    for index, hours in enumerate(HOURS):
        for group in GROUPS:
            cells = [f"{hours} h", group.arm, f"{CLICK_RATES[group.kind]:.0%}"]
            for runs in results.values():
                mean, error = mean_and_error([100 * run[index][group] for run in runs])
                cells.append(f"{mean:+.1f}" + (f" ± {error:.1f}" if error is not None else ""))
            print(f"| {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
