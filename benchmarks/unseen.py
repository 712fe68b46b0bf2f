"""How well policies do on data sets that played no part in the choice of any setting.

Run it with ``python -m benchmarks.unseen``. The data comes with scikit-learn and river, which the extra
``rivals`` installs. Every policy meets the same streams; rows are played once, up to 5000 of them.
"""

import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

import numpy as np

from glcb.bench import simulate
from glcb.bench.plan import PAPER_POLICIES
from glcb.bench.statistics import mean_and_error
from glcb.policies import registry
from glcb.tasks import ClassificationTask

SEEDS = 10
POLICIES = ("glcb", *PAPER_POLICIES, "linucb", "lints")


def digits() -> ClassificationTask:
    """Hand-written digits, 8 × 8 pixels (scikit-learn, from UCI)."""
    from sklearn.datasets import load_digits

    data = load_digits()
    return ClassificationTask.from_arrays(data.data, data.target, name="digits")


def segments() -> ClassificationTask:
    """What a patch of an outdoor picture shows (river, from UCI image segmentation)."""
    return _from_river("ImageSegments", "segments")


def bananas() -> ClassificationTask:
    """Two classes that no line can part (river, from OpenML)."""
    return _from_river("Bananas", "bananas")


def _from_river(known_as: str, name: str) -> ClassificationTask:
    rows: Any = getattr(import_module("river.datasets"), known_as)()
    pairs = list(rows)
    contexts = [list(context.values()) for context, _ in pairs]
    return ClassificationTask.from_arrays(contexts, [str(label) for _, label in pairs], name=name)


TASKS: tuple[Callable[[], ClassificationTask], ...] = (digits, segments, bananas)


def main(policies: Sequence[str]) -> None:
    """Play and print, a line per task and policy."""
    print("| task | policy | reward |\n|:--|:--|--:|")
    for make in TASKS:
        task = make()
        streams = [task.stream(seed, 5000) for seed in range(SEEDS)]
        optimum = np.mean([stream.optimum for stream in streams])
        for name in policies:
            totals = []
            for seed, stream in enumerate(streams):
                policy = registry.get(name).make(task.arms, task.features, rewards="binary", seed=seed)
                totals.append(simulate(policy, stream).total)
            mean, error = mean_and_error(totals)
            print(f"| {task.name}, {optimum:,.0f} steps | {name} | {mean:,.0f} ± {error:,.0f} |", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:] or POLICIES)
