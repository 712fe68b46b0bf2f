"""The cost of ``Bandit`` around the kernels of its policy: microseconds per decision and per reward.

A bandit and the bare kernels of a policy with the same history alternate, context by context, so that other
work on the machine affects both equally. Run it with ``python -m benchmarks.encoding``.
"""

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from glcb import Bandit
from glcb.policies.glcb import kernels
from glcb.policies.glcb.policy import GLCB

CONTEXTS, ROUNDS = 500, 8

Times = dict[str, float]
"""Median microseconds by name."""


def main() -> None:
    """Measure and print."""
    rng = np.random.default_rng(0)
    print("glcb: median µs per call; both in alternation")
    print(f"{'contexts':<42} {'call':<8} {'Bandit':>7} {'kernel':>7} {'ratio':>6}")
    for description, arms, make in (
        ("20 mixed features, 3 arms", 3, mixed),
        ("94 numbers, 14 arms", 14, numbers),
        ("6 numbers and 8 categories, 14 arms", 14, person),
    ):
        contexts = [make(rng) for _ in range(CONTEXTS)]
        times = measure(Bandit(arms), contexts, rng)
        for call in ("decide", "reward"):
            bandit, kernel = times[call], times[f"kernel {call}"]
            print(f"{description:<42} {call:<8} {bandit:7.1f} {kernel:7.1f} {bandit / kernel:6.2f}")
        bandit, kernel = (
            sum(times[f"{part}{call}"] for call in ("decide", "reward")) for part in ("", "kernel ")
        )
        print(f"{'':<42} {'both':<8} {bandit:7.1f} {kernel:7.1f} {bandit / kernel:6.2f}")
        print(f"{'':<42} {'encode':<8} {times['encode']:7.1f}")


def measure(bandit: Bandit, contexts: list[dict[str, Any]], rng: np.random.Generator) -> Times:
    """Return the times of ``Bandit``, of the kernels alone, and of the encoder."""
    for context in contexts:
        bandit.reward(bandit.decide(context).id, int(rng.integers(2)))
    policy, encoder = bandit._core.policy, bandit._core.encoder
    assert isinstance(policy, GLCB)
    assert encoder is not None
    twin = GLCB.from_snapshot(policy.snapshot())
    results = np.empty((4, len(bandit.arms)))
    taken: dict[str, list[float]] = {}

    def timed(name: str, call: Callable[..., Any], *arguments: Any) -> Any:
        start = time.perf_counter()
        result = call(*arguments)
        taken.setdefault(name, []).append(1e6 * (time.perf_counter() - start))
        return result

    for _ in range(ROUNDS):
        for context in contexts:
            decision, reward = timed("decide", bandit.decide, context), float(rng.integers(2))
            x = encoder.encode(context).x
            twin.ensure_capacity()
            timed("kernel decide", _decide, twin, x, results)
            timed("reward", bandit.reward, decision.id, reward)
            twin.ensure_capacity()
            timed("kernel reward", _learn, twin, x, reward)
            timed("encode", encoder.encode, context)
    return {name: float(np.median(times)) for name, times in taken.items()}


def _decide(policy: GLCB, x: np.ndarray, results: np.ndarray) -> None:
    """Run only the compiled part of a decision."""
    kernels.load_context(x, policy._arrays.addresses)
    kernels.estimate(0.05, True, 0.5, True, results, policy._arrays.addresses)


def _learn(policy: GLCB, x: np.ndarray, reward: float) -> None:
    """Run only the compiled part of a reward."""
    kernels.load_context(x, policy._arrays.addresses)
    kernels.learn_reward(0, reward, 0.0, True, policy._arrays.addresses)


def mixed(rng: np.random.Generator) -> dict[str, Any]:
    """Draw eight numbers, eight categories and four booleans."""
    return {
        **{f"number {i}": float(rng.normal()) for i in range(8)},
        **{f"category {i}": f"value {rng.integers(5)}" for i in range(8)},
        **{f"boolean {i}": bool(rng.integers(2)) for i in range(4)},
    }


def numbers(rng: np.random.Generator) -> dict[str, Any]:
    """Draw 94 numbers."""
    return {f"feature {i}": float(value) for i, value in enumerate(rng.random(94))}


def person(rng: np.random.Generator) -> dict[str, Any]:
    """Draw a context as in the adult task: six numbers and eight categories."""
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
