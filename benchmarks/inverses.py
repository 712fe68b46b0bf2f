"""Accuracy of the running inverses of ``glcb`` after a million rewards; part of ``make soak``.

The contexts leave directions unused or barely used: rounding errors accumulate there and never decay. Each
inverse is compared with a direct inverse of the same sums.
"""

import argparse
import time
from collections.abc import Callable

import numpy as np

from glcb import GLCB
from glcb._arrays import Float32, Float64, Int64
from glcb._types import Rewards
from glcb.experts.fourier import CONTEXTS_TO_MEASURE
from glcb.experts.regression import MIN_CURVATURE, predict_target

FEATURES = 40
ARM = 1
"""The only arm that is rewarded, so that its inverses see all contexts."""
CHUNK = 1000
"""Number of contexts whose squares are added at a time."""
MAX_ERROR = 1e-6
"""Maximum error of an inverse, relative to its largest element."""
BOUNDED: Rewards = (-1.0, 3.0)

Contexts = Callable[[np.random.Generator, Int64], Float32]
"""Returns the contexts of some steps."""


def constant(rng: np.random.Generator, steps: Int64) -> Float32:
    """Return the same context again and again."""
    return np.tile(np.linspace(0, 1, FEATURES, dtype=np.float32), (steps.size, 1))


def collinear(rng: np.random.Generator, steps: Int64) -> Float32:
    """Return contexts in which every feature occurs twice."""
    return np.repeat(rng.random((steps.size, FEATURES // 2), np.float32), 2, axis=1)


def one_hot(rng: np.random.Generator, steps: Int64) -> Float32:
    """Return one-hot attributes with two levels each: the bits of the step, so that no context repeats."""
    bits = (steps[:, None] >> np.arange(FEATURES // 2)) & 1
    return np.stack([bits, 1 - bits], axis=2).reshape(steps.size, FEATURES).astype(np.float32)


def late(rng: np.random.Generator, steps: Int64) -> Float32:
    """Return one one-hot attribute, whose k-th level first appears after 2^k steps or so."""
    levels = np.minimum(rng.geometric(0.5, steps.size), FEATURES) - 1
    contexts: Float32 = np.eye(FEATURES, dtype=np.float32)[levels]
    return contexts


CONTEXTS: dict[str, Contexts] = {
    "constant": constant,
    "collinear": collinear,
    "one-hot": one_hot,
    "late": late,
}


class Moments:
    """The sums whose inverses a policy keeps, accumulated directly."""

    def __init__(self, policy: GLCB) -> None:
        self._policy = policy
        experts = policy._experts
        self.linear: Float64 = np.linalg.inv(experts.linear.inverse(ARM)).astype(np.float64)
        self.weak: Float64 = np.linalg.inv(experts.weak.inverse(ARM)).astype(np.float64)
        self.fourier: Float64 = np.linalg.inv(experts.fourier.inverse(ARM)).astype(np.float64)
        inputs = FEATURES + 1
        self.networks: Float64 = np.array([r * inputs * np.eye(inputs) for r in policy.settings.ridges])

    def add(self, contexts: Float32, curvatures: Float64) -> None:
        """Add the squares of the inputs; ``curvatures`` has a row for each regression on the context."""
        experts, bank = self._policy._experts, self._policy._bank
        features = np.array([experts.features.at(x) for x in contexts])
        linear = features[:, -self.linear.shape[0] :]
        self.fourier += features.T @ features
        self.linear += (linear.T * curvatures[0]) @ linear
        if self.weak.size:
            self.weak += (linear.T * curvatures[1]) @ linear
        inputs = np.array([bank._inputs(x)[: FEATURES + 1] for x in contexts], np.float64)
        self.networks += inputs.T @ inputs

    def errors(self) -> dict[str, float]:
        """Return the largest error of each inverse, relative to its largest element."""
        experts, optimizer = self._policy._experts, self._policy._bank.optimizer
        pairs = {
            "linear": (experts.linear.inverse(ARM), self.linear),
            "fourier": (experts.fourier.inverse(ARM), self.fourier),
            "weak": (experts.weak.inverse(ARM), self.weak),
            "networks 0": (optimizer.snapshot()["inverses"][0], self.networks[0]),
            "networks 1": (optimizer.snapshot()["inverses"][1], self.networks[1]),
        }
        return {
            name: _error(inverse, np.linalg.inv(moment))
            for name, (inverse, moment) in pairs.items()
            if moment.size
        }


def _error(inverse: Float64, exact: Float64) -> float:
    assert np.linalg.eigvalsh(inverse).min() > 0, "an inverse is not positive definite"
    return float(np.abs(inverse - exact).max() / np.abs(exact).max())


def run(contexts: Contexts, rewards: Rewards, steps: int, seed: int = 0) -> dict[str, float]:
    """Learn ``steps`` rewards; return the error of each inverse. Fails on NaN."""
    rng = np.random.default_rng(seed)
    policy = GLCB(2, FEATURES, rewards=rewards, seed=seed)
    moments = Moments(policy)
    for start in range(0, steps, CHUNK):
        chunk = contexts(rng, np.arange(start, min(start + CHUNK, steps)))
        curvatures = np.ones((2, len(chunk)))
        for step, x in enumerate(chunk):
            if rewards == "binary":
                z = np.append(x.astype(np.float64) - 0.5, 1.0)
                for row, regression in enumerate((policy._experts.linear, policy._experts.weak)):
                    p = predict_target(z, ARM, regression.arrays)
                    curvatures[row, step] = max(p * (1 - p), MIN_CURVATURE)
            policy.learn(x, ARM, float(rng.random() < 0.2))
        assert policy.updates >= CONTEXTS_TO_MEASURE, "the kernel length is not fixed yet"
        moments.add(chunk, curvatures)
        estimates = policy.estimate(chunk[-1])
        assert np.isfinite([*estimates.values, estimates.bonuses[ARM]]).all(), "a number is not finite"
    return moments.errors()


def main() -> None:
    """Print the errors of all inverses."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=1_000_000)
    steps = parser.parse_args().steps
    for rewards in ("binary", BOUNDED):
        for name, contexts in CONTEXTS.items():
            start = time.perf_counter()
            errors = run(contexts, rewards, steps)
            shown = ", ".join(f"{inverse} {error:.1e}" for inverse, error in errors.items())
            print(
                f"{steps:,} {name} contexts, {'0/1' if rewards == 'binary' else 'bounded'} rewards, "
                f"{time.perf_counter() - start:,.0f} s: relative errors {shown}",
                flush=True,
            )
            assert max(errors.values()) <= MAX_ERROR, "an inverse drifts"


if __name__ == "__main__":
    main()
