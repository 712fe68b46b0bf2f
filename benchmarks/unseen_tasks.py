"""Rewards on data sets not used to choose any setting.

Run it with ``python -m benchmarks.unseen_tasks``. The data comes with scikit-learn and River, which the extra
``rivals`` installs. All policies see the same streams of at most 5000 rows, each row once.
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
    """Handwritten digits, 8 × 8 pixels (scikit-learn, from UCI)."""
    from sklearn.datasets import load_digits

    data = load_digits()
    return ClassificationTask.from_arrays(data.data, data.target, name="digits")


def segments() -> ClassificationTask:
    """Surface types in patches of outdoor images (River, from UCI Image Segmentation)."""
    return _from_river("ImageSegments", "segments")


def bananas() -> ClassificationTask:
    """Two classes that are not linearly separable (River, from OpenML)."""
    return _from_river("Bananas", "bananas")


def _from_river(dataset: str, name: str) -> ClassificationTask:
    rows: Any = getattr(import_module("river.datasets"), dataset)()
    pairs = list(rows)
    contexts = [list(context.values()) for context, _ in pairs]
    return ClassificationTask.from_arrays(contexts, [str(label) for _, label in pairs], name=name)


TASKS: tuple[Callable[[], ClassificationTask], ...] = (digits, segments, bananas)


def main(policies: Sequence[str]) -> None:
    """Simulate and print one line per task and policy."""
    print("| task | policy | reward |\n|:--|:--|--:|")
    for make in TASKS:
        task = make()
        streams = [task.stream(seed, 5000) for seed in range(SEEDS)]
        optimum = np.mean([stream.optimum for stream in streams])
        for name in policies:
            totals = []
            for seed, stream in enumerate(streams):
                policy = registry.get(name).create(task.arms, task.features, rewards="binary", seed=seed)
                totals.append(simulate(policy, stream).total)
            mean, error = mean_and_error(totals)
            print(f"| {task.name}, {optimum:,.0f} steps | {name} | {mean:,.0f} ± {error:,.0f} |", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:] or POLICIES)
