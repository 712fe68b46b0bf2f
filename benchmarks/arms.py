"""Arms with features: times compared with Vowpal Wabbit, and memory.

    python -m benchmarks.arms times
    python -m benchmarks.arms memory
    python -m benchmarks.arms wide

``python -m benchmarks.studies arms`` compares rewards, and ``benchmarks/propensities.py`` tests the
propensities of rankings. ``wide`` measures contexts with an embedding.
"""

import argparse
import resource
import statistics
import time
from collections.abc import Callable

import numpy as np

from benchmarks.vw_arms import OPTIONS, arm_line, context_line
from glcb import Bandit


def _milliseconds(function: Callable[[], object], repetitions: int) -> float:
    function()
    durations = []
    for _ in range(repetitions):
        start = time.process_time()  # other processes do not affect it
        function()
        durations.append(time.process_time() - start)
    return 1000 * statistics.median(durations)


def times(repetitions: int) -> None:
    """Print the time of a decision by number of candidates, with 50 features of the context and the arm."""
    print("CPU milliseconds per decision; 50 context features, 50 features per arm; median")
    print("  candidates   catalog  per request  Vowpal Wabbit")
    for count in (10, 100, 1000, 10_000):
        _print_times(count, max(3, repetitions // max(1, count // 100)))


def _print_times(count: int, runs: int) -> None:
    from vowpalwabbit import Workspace

    rng = np.random.default_rng(0)
    catalog = {f"m{i}": {"v": row.tolist()} for i, row in enumerate(rng.random((count, 50)))}
    bandit = Bandit(arms=catalog)
    for _ in range(100):
        decision = bandit.decide({"c": rng.random(50).tolist()})
        bandit.reward(decision.id, int(rng.integers(2)))
    context = {"c": rng.random(50).tolist()}
    workspace = Workspace(OPTIONS)
    lines = [arm_line(np.array(each["v"], np.float32)) for each in catalog.values()]
    shared = context_line(rng.random(50, np.float32))
    ours = _milliseconds(lambda: bandit.decide(context), runs)
    request = _milliseconds(lambda: bandit.decide(context, arms=catalog), runs)
    theirs = _milliseconds(lambda: workspace.predict([shared, *lines]), runs)
    print(f"  {count:>10,}{ours:>10.2f}{request:>13.2f}{theirs:>15.2f}", flush=True)


def memory(names: int) -> None:
    """Print the memory of a bandit before and after many distinct arm names."""
    rng = np.random.default_rng(0)
    bandit, start = Bandit(arms={}), 0
    for first in range(0, names, 10):
        arms = {f"m{first + i}": {"price": float(rng.random()), "genre": f"g{first % 7}"} for i in range(10)}
        bandit.reward(bandit.decide({"age": first % 60}, arms=arms).id, first % 3 == 0)
        if first == 20_000:
            start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    end = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(f"{start / 1024:.0f} MiB after 20,000 names, {end / 1024:.0f} MiB after {names:,}")


def wide(repetitions: int) -> None:
    """Print the time of a decision and of an update with 9 arms, by the length of a vector in the context."""
    for width in (64, 128, 384, 768, 1536, 3072):
        bandit, rng = Bandit(9), np.random.default_rng(0)
        decide, learn = [], []
        for _ in range(50 + repetitions):
            context = {"words": float(rng.random()), "embedding": rng.standard_normal(width)}
            start = time.process_time()
            decision = bandit.decide(context)
            middle = time.process_time()
            bandit.reward(decision.id, 1)
            learn.append(time.process_time() - middle)
            decide.append(middle - start)
        medians = [1e6 * statistics.median(numbers[50:]) for numbers in (decide, learn)]
        print(f"{width:5} numbers: {medians[0]:6.0f} µs to decide, {medians[1]:6.0f} µs to learn", flush=True)


def main() -> None:
    """Run one of the measurements."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("what", choices=["times", "memory", "wide"])
    parser.add_argument("--names", type=int, default=100_000)
    parser.add_argument("--repetitions", type=int, default=100)
    options = parser.parse_args()
    if options.what == "times":
        times(options.repetitions)
    elif options.what == "wide":
        wide(options.repetitions)
    else:
        memory(options.names)


if __name__ == "__main__":
    main()
