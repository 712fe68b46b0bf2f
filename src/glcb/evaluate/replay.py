"""Replay of a learning policy by rejection sampling.

A row is accepted with probability π(a | x) / (M p(a | x)), where M is at least as large as every ratio π / p.
The accepted rows are then distributed as if the policy itself had chosen the arms, so a policy that learns
only from them sees what it would have seen online. If the log is uniformly random, this is the usual replay
(Li et al., *Unbiased offline evaluation of contextual-bandit-based news article recommendation algorithms*,
2011) with the match made by chance.
"""

import numpy as np

from glcb._arrays import Arrays, copy_into
from glcb.evaluate.diagnostics import Diagnostic
from glcb.evaluate.estimators import ValueEstimate
from glcb.evaluate.rows import Chunk
from glcb.evaluate.targets import BanditTarget

_MIN_ACCEPTED = 100
_MAX_EXCEEDED = 0.001
_STREAM = 1
"""Distinguishes these random numbers from others with the same seed."""


class PolicyReplay:
    """The replay of one policy.

    Parameters
    ----------
    target : BanditTarget
        The policy. It learns from accepted rows only.
    max_ratio : float
        M, the bound of π / p.
    seed : int
        Seed of the random numbers that accept rows.
    """

    has_state = True
    uses_contexts = True

    def __init__(self, target: BanditTarget, max_ratio: float, seed: int) -> None:
        self._target, self._max_ratio, self._seed = target, max_ratio, seed
        self._sums = np.zeros(5)
        """Rows, accepted rows, sum and sum of squares of their rewards, rows with a ratio above M."""
        self._chunks = np.zeros(1, np.int64)

    def visit(self, chunk: Chunk) -> None:
        """Replay the rows of a chunk."""
        # The random numbers of a chunk do not depend on the chunks before.
        points = np.random.default_rng((self._seed, int(self._chunks[0]), _STREAM)).random(len(chunk))
        self._chunks += 1
        for row in range(len(chunk)):
            ratio = self._target.preview(chunk, row)[chunk.arm[row]] / chunk.propensity[row]
            self._sums[0] += 1
            self._sums[4] += ratio > self._max_ratio * (1 + 1e-9)
            if points[row] < ratio / self._max_ratio:
                reward = chunk.reward[row]
                self._sums[1:4] += (1, reward, reward**2)
                self._target.learn(chunk, row)

    @property
    def accepted(self) -> int:
        """Number of accepted rows."""
        return int(self._sums[1])

    def estimate(self) -> ValueEstimate:
        """Return the mean reward of the accepted rows."""
        _, count, total, squares, _ = self._sums
        if count < 2:
            return ValueEstimate(float(total / max(count, 1)), np.inf)
        mean = total / count
        variance = max(squares / count - mean**2, 0.0) * count / (count - 1)
        return ValueEstimate(float(mean), float(np.sqrt(variance / count)))

    def check(self) -> list[Diagnostic]:
        """Return the checks of the replay."""
        rows, accepted, _, _, exceeded = self._sums
        message = f"{accepted:,.0f} of {rows:,.0f} rows were accepted"
        checks = [Diagnostic("accepted rows", "ok", message + ".")]
        if accepted < _MIN_ACCEPTED:
            message += (
                f": fewer than {_MIN_ACCEPTED}. Small propensities (1 in {self._max_ratio:,.0f}) make replay "
                "wasteful; evaluate the policy trained on the log instead."
            )
            checks = [Diagnostic("accepted rows", "error", message)]
        if exceeded > _MAX_EXCEEDED * rows:
            message = (
                f"In {exceeded / rows:.1%} of the rows π / p exceeds the limit of {self._max_ratio:,.4g}: "
                "the accepted rows are not quite what the policy would have seen."
            )
            checks.append(Diagnostic("replay limit", "warning", message))
        return checks

    def snapshot(self) -> Arrays:
        """Return the sums; the state of the policy is separate."""
        return {"sums": self._sums, "chunks": self._chunks}

    def restore(self, arrays: Arrays) -> None:
        """Restore a snapshot of the sums."""
        copy_into(self.snapshot(), arrays)

    @property
    def target(self) -> BanditTarget:
        """The policy."""
        return self._target
