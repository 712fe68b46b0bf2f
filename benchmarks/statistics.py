"""The cost of statistics: CPU time per decision and reward, and of the requests of a dashboard.

    python -m benchmarks.statistics --decisions 50000

An experiment with 50 arms and 8 segment features has a year of decisions, and then a hundred decisions per
second, which are measured. Only the sums are updated, without a model.
"""

import argparse
import random
import time
from collections.abc import Callable

from benchmarks.lift import weights
from glcb._api.requests import Creation, ExperimentSettings, encode
from glcb.service.core.experiment import Experiment
from glcb.service.core.open_decisions import OpenDecision
from glcb.service.core.records import SlotRecord
from glcb.service.process.metrics import Activity
from glcb.service.views import curves, segments, stats

ARMS = tuple(f"arm {number}" for number in range(50))
YEAR = 365 * 86_400.0


def context(rng: random.Random) -> dict[str, object]:
    """Return a context with six categories and two numbers."""
    categories = {f"c{size}": f"v{rng.randrange(size)}" for size in (2, 3, 5, 8, 12, 18)}
    return {**categories, "age": rng.randrange(18, 80), "price": rng.random()}


def fill(decisions: int) -> tuple[Experiment, float, float]:
    """Return an experiment after some decisions, and the CPU seconds per decision and per reward."""
    settings = ExperimentSettings(arms=list(ARMS), policy="uniform")
    creation = Creation(name="year", salt="", id_prefix="", settings=settings)
    experiment, _ = Experiment.create(creation, time.time() - YEAR)
    tally, rng = experiment.state.tally, random.Random(10_000)
    shares = [0.02] * 50
    found = weights(0.02, 0.02, 0.02, 50, 0.05)
    deciding = rewarding = 0.0
    at = experiment.state.created
    for number in range(2 * decisions):
        at += YEAR / decisions if number < decisions else 0.01
        slot = SlotRecord(rng.choice(ARMS), 0.02, 0.9, 1.0, shares, shares, True, found)
        opened = OpenDecision(slot.arm, False, at, None, found)
        sent = context(rng)
        start = time.process_time()
        (opened.segments,) = tally.add_decision(at, [slot], False, ARMS, sent)
        middle = time.process_time()
        tally.add_reward(at, opened, number % 5 == 0, float(number % 5 == 0), None)
        if number >= decisions:
            deciding += middle - start
            rewarding += time.process_time() - middle
    experiment.state.last_event_at = at
    return experiment, deciding / decisions, rewarding / decisions


def _view(name: str, view: Callable[[], object]) -> None:
    view()
    seconds = []
    for _ in range(20):
        start = time.process_time()
        content = encode(view())
        seconds.append(time.process_time() - start)
    print(f"| {name} | {1e3 * sorted(seconds)[10]:.1f} ms | {len(content):,} bytes |", flush=True)


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--decisions", type=int, default=100_000)
    decisions = parser.parse_args().decisions
    print(f"{decisions:,} decisions in a year and as many at 100 per second, 50 arms, 8 features; CPU time\n")
    print("| per decision | per reward |\n|--:|--:|")
    experiment, deciding, rewarding = fill(decisions)
    print(f"| {1e6 * deciding:.1f} µs | {1e6 * rewarding:.1f} µs |", flush=True)
    print("\n| request | median | response |\n|:--|--:|--:|")
    now = time.time()
    last_week = curves.CurvesQuery(start=now - 7 * 86_400, end=now)
    _view("stats", lambda: stats.stats(experiment, Activity()))
    _view("curves, all time", lambda: curves.curves(experiment, curves.CurvesQuery()))
    _view("curves, last week", lambda: curves.curves(experiment, last_week))
    _view("curves of one arm", lambda: curves.curves(experiment, curves.CurvesQuery(arm=ARMS[0])))
    _view("segments", lambda: segments.segments(experiment))
    print(f"\nThe snapshot without the model has {len(experiment.snapshot().state):,} bytes.")


if __name__ == "__main__":
    main()
