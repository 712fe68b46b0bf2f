"""The cost of encoding: microseconds per step of ``Bandit`` compared with its policy alone.

Times are CPU times, the median of many rounds, so that other work on the machine matters little. Run it with
``python -m benchmarks.encoding``.
"""

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from glcb import Bandit
from glcb.explore.probabilities import draw, probabilities
from glcb.policies import registry

FEATURES, ARMS, CONTEXTS, ROUNDS = 94, 14, 200, 15
POLICY = "glcb"

Parts = dict[str, tuple[Callable[[Any], Any], Sequence[Any]]]
"""Timed functions by name, each with its inputs."""


def main() -> None:
    """Measure and print."""
    rng = np.random.default_rng(0)
    table = rng.random((CONTEXTS, FEATURES))
    policy = registry.get(POLICY).create(ARMS, FEATURES)
    for x in table:
        policy.learn(x, int(rng.integers(ARMS)), int(rng.integers(2)))
    print(f"{POLICY}, {ARMS} arms: µs of CPU time per call, median of {ROUNDS} rounds")
    array: Parts = {f"array of {FEATURES} numbers: policy.decide": (policy.decide, list(table))}
    names = [f"feature {i}" for i in range(FEATURES)]
    dicts = [dict(zip(names, row, strict=True)) for row in table.tolist()]
    show({**array, **parts(f"dict of {FEATURES} numbers", dicts, rng)})
    show(parts("dict of 6 numbers and 8 categories", [person(rng) for _ in range(CONTEXTS)], rng))


def parts(description: str, contexts: Sequence[Any], rng: np.random.Generator) -> Parts:
    """Return ``Bandit.decide`` on these contexts, and each of its parts."""
    bandit = Bandit(ARMS, policy=POLICY)
    for context in contexts:
        bandit.reward(bandit.decide(context).id, int(rng.integers(2)))
    encoder, policy = bandit._core.encoder, bandit._core.policy
    assert encoder is not None
    assert policy is not None
    readings = [encoder.encode(context) for context in contexts]
    encoded = [reading.x for reading in readings]
    estimates = [policy.estimate(x) for x in encoded]
    return {
        f"{description}, {encoder.width} slots: Bandit.decide": (bandit.decide, contexts),
        "    encoder.encode": (encoder.encode, contexts),
        "    policy.estimate": (policy.estimate, encoded),
        "    probabilities and draw": (
            lambda e: draw(probabilities(e.values + e.bonuses, None, 0.05, "gap"), rng),
            estimates,
        ),
        "    encoder.commit": (encoder.commit, readings),
    }


def show(parts: Parts) -> None:
    """Time the parts in interleaved rounds and print the medians."""
    rounds: dict[str, list[float]] = {name: [] for name in parts}
    for _ in range(ROUNDS):
        for name, (call, inputs) in parts.items():
            start = time.process_time()
            for one in inputs:
                call(one)
            rounds[name].append((time.process_time() - start) / len(inputs))
    for name, times in rounds.items():
        print(f"{name:<62} {1e6 * float(np.median(times)):6.1f}")


def person(rng: np.random.Generator) -> dict[str, Any]:
    """Draw a context like those of the adult task: six numbers and eight categories."""
    sizes = {
        "work": 7,
        "education": 16,
        "marriage": 7,
        "family": 6,
        "race": 5,
        "sex": 2,
        "country": 41,
        "income": 4,
    }
    return {
        **{f"number {i}": float(rng.normal()) for i in range(6)},
        **{name: f"{name} {rng.integers(size)}" for name, size in sizes.items()},
    }


if __name__ == "__main__":
    main()
