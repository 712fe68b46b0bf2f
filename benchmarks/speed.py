"""How long a decision and an update take, early and late, and how long until the first one."""

import os
import subprocess
import sys
import tempfile
import time

import numpy as np

from glcb import GLCB

FEATURES, ARMS = 94, 14
FIRST_DECISION = "from glcb import GLCB; GLCB(['a', 'b', 'c'], 4).decide([0.1, 0.2, 0.3, 0.4])"


def main() -> None:
    """Measure and print."""
    print(f"{FEATURES} features, {ARMS} arms, the paper's settings, medians of 1,000 steps")
    rng = np.random.default_rng(0)
    bandit = GLCB(ARMS, FEATURES)
    for steps in (1_000, 100_000):
        while bandit.steps < steps:
            bandit.learn(rng.random(FEATURES), int(rng.integers(ARMS)), int(rng.integers(2)))
        decide, learn = times(bandit, rng)
        print(f"after {steps:>7,} steps: decide {decide:4.0f} µs, learn {learn:4.0f} µs")
    print("seconds in a fresh process, best of three")
    print(
        f"import glcb: {seconds('import glcb'):.2f}, with a policy: {seconds('import glcb; glcb.GLCB'):.2f}"
    )
    print(f"first decision: {seconds(FIRST_DECISION):.2f}")
    with tempfile.TemporaryDirectory() as folder:
        print(f"first decision from a cold cache: {seconds(FIRST_DECISION, cache=folder, repeat=1):.1f}")


def times(bandit: GLCB, rng: np.random.Generator) -> tuple[float, float]:
    """Return the median microseconds of ``decide`` and of ``learn``."""
    decide, learn = [], []
    for x in rng.random((1_000, FEATURES)):
        start = time.perf_counter()
        arm = bandit.decide(x).arm
        decided = time.perf_counter()
        bandit.learn(x, arm, int(rng.integers(2)))
        learn.append(time.perf_counter() - decided)
        decide.append(decided - start)
    return 1e6 * float(np.median(decide)), 1e6 * float(np.median(learn))


def seconds(program: str, *, cache: str | None = None, repeat: int = 3) -> float:
    """Return how long a fresh interpreter takes for ``program``, its own start left out."""
    environment = os.environ | ({"NUMBA_CACHE_DIR": cache} if cache else {})
    timed = f"import time; t = time.perf_counter()\n{program}\nprint(time.perf_counter() - t)"
    runs = [
        subprocess.run([sys.executable, "-c", timed], env=environment, capture_output=True, check=True)
        for _ in range(repeat)
    ]
    return min(float(run.stdout) for run in runs)


if __name__ == "__main__":
    main()
