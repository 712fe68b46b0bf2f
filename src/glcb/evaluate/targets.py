"""The policies that can be evaluated on a log.

A target assigns probabilities to the arms of every logged decision. Learning targets use earlier rows only,
so that probabilities never depend on the reward they are evaluated with.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from glcb._arrays import Arrays, Float64
from glcb._errors import InvalidInput, UnknownArm
from glcb._model_file import Snapshot
from glcb._types import Arm
from glcb.bandit.bandit import Bandit
from glcb.bandit.offline import OfflineBandit
from glcb.evaluate.rows import Chunk

Rule = Callable[[Any], Arm | Mapping[Arm, float] | Sequence[Arm]]
"""Returns an arm for a context, the probability of each arm, or the arms of a ranking from the top."""

_TOLERANCE = 1e-6


class Target(Protocol):
    """A policy to evaluate."""

    learns: bool
    """Whether it learns from the rows that it visits."""
    has_state: bool
    """Whether it learns or draws random numbers, so that it must visit the rows of a log in order."""
    uses_contexts: bool
    """Whether it does more than cheap comparisons of arms, rewards and propensities."""

    def visit(self, chunk: Chunk) -> Float64:
        """Return the probability of each arm in each row; then learn from the rows, if the target learns."""

    def snapshot(self) -> Arrays | Snapshot | None:
        """Return the state; None if the target has none."""

    def restore(self, state: Any) -> None:
        """Restore a snapshot."""


class UniformTarget:
    """Chooses each eligible arm with the same probability."""

    learns = False
    has_state = False
    uses_contexts = False

    def visit(self, chunk: Chunk) -> Float64:
        """Return the same probability for each eligible arm."""
        shares: Float64 = chunk.eligible / chunk.eligible.sum(axis=1, keepdims=True)
        return shares

    def snapshot(self) -> None:
        """Return None: there is no state."""

    def restore(self, state: Any) -> None:
        """Do nothing: there is no state."""


class Constant(UniformTarget):
    """Always chooses the same arm, or any eligible arm where it is not eligible."""

    def __init__(self, arm: int) -> None:
        self._arm = arm

    def visit(self, chunk: Chunk) -> Float64:
        """Return 1 for the arm."""
        result = super().visit(chunk)
        possible = chunk.eligible[:, self._arm]
        result[possible] = 0.0
        result[possible, self._arm] = 1.0
        return result


class BestFixedArm(UniformTarget):
    """Chooses the eligible arm with the best estimated mean reward so far, regardless of the context.

    Choosing the best arm of the whole log in hindsight would be biased towards lucky arms.
    """

    learns = True
    has_state = True

    def __init__(self, arms: int) -> None:
        self._rewards = np.zeros(arms)
        self._weights = np.zeros(arms)

    def visit(self, chunk: Chunk) -> Float64:
        """Return 1 for the best arm so far. Arms without an estimate come first."""
        own = np.zeros((len(chunk) + 1, self._rewards.size))
        own[np.arange(1, len(chunk) + 1), chunk.arm] = chunk.examined / chunk.propensity
        rewards = self._rewards + np.cumsum(own * np.append(0.0, chunk.reward)[:, None], axis=0)
        weights = self._weights + np.cumsum(own, axis=0)
        self._rewards, self._weights = rewards[-1], weights[-1]
        before = np.arange(len(chunk)) - chunk.slot  # all slots of a ranking are filled at the same time
        rewards, weights = rewards[before], weights[before]
        means = np.divide(rewards, weights, out=np.full_like(rewards, 2.0), where=weights > 0)
        means[~chunk.eligible] = -1.0
        best = means == means.max(axis=1, keepdims=True)
        result: Float64 = best / best.sum(axis=1, keepdims=True)
        return result

    def snapshot(self) -> Arrays:  # type: ignore[override]
        """Return the sums of each arm."""
        return {"rewards": self._rewards, "weights": self._weights}

    def restore(self, state: Any) -> None:
        """Restore a snapshot."""
        self._rewards, self._weights = np.array(state["rewards"]), np.array(state["weights"])


class RuleTarget(UniformTarget):
    """A function of the context.

    In a ranking, probabilities apply to the top slot; lower slots are drawn from the remaining arms in
    proportion to them. Slots for which the function has no arm get any remaining arm.
    """

    uses_contexts = True

    def __init__(self, rule: Rule, index: Mapping[Arm, int], name: str) -> None:
        self._rule, self._index, self._name = rule, index, name
        self._arms = len(set(index.values()))

    def visit(self, chunk: Chunk) -> Float64:
        """Return the probabilities that the function returns."""
        result = np.zeros((len(chunk), self._arms))
        for rows in chunk.rankings():
            answer = self._rule(chunk.contexts[rows.start])
            if isinstance(answer, Sequence) and not isinstance(answer, str):
                for row in rows:
                    if chunk.slot[row] < len(answer):
                        result[row, self._position(answer[chunk.slot[row]])] = 1.0
            else:
                shares: Mapping[Arm, float] = answer if isinstance(answer, Mapping) else {answer: 1.0}
                for arm, share in shares.items():
                    result[rows, self._position(arm)] = share
        tops = result[chunk.slot == 0]
        if result.min(initial=0.0) < 0 or np.abs(tops.sum(axis=1) - 1).max(initial=0.0) > _TOLERANCE:
            raise InvalidInput(
                f"the policy {self._name!r} must return an arm, probabilities that add up to 1, or a ranking"
            )
        lower = chunk.slot > 0
        if lower.any():
            left = np.where(chunk.eligible[lower], result[lower], 0.0)
            total = left.sum(axis=1, keepdims=True)
            any_arm = super().visit(chunk)[lower]
            result[lower] = np.divide(left, total, out=any_arm, where=total > 0)
        return result

    def _position(self, arm: Arm) -> int:
        if arm not in self._index:
            known = ", ".join(map(repr, list(self._index)[:8]))
            raise UnknownArm(f"the policy {self._name!r} chose {arm!r}; the arms are {known}")
        return self._index[arm]


class BanditTarget:
    """A bandit, either frozen or learning from each row after assigning its probabilities.

    If the arms of the bandit have features, the candidates of a row and their features come from the log.
    Otherwise, logged arms that the bandit does not have get the probability 0 and are not learned.
    """

    uses_contexts = True

    def __init__(self, bandit: Bandit, arms: Sequence[Arm], *, learns: bool) -> None:
        self._bandit, self.learns = OfflineBandit(bandit), learns
        self.has_state = learns or self._bandit.is_randomized
        self._arms = tuple(arms)
        self._index = {arm: position for position, arm in enumerate(arms)}
        self._own = set(self._bandit.arms)

    def preview(self, chunk: Chunk, row: int) -> Float64:
        """Return the probability of each arm of the log in one row."""
        candidates = self._candidates(chunk, row)
        eligible = chunk.eligible_arms(row, self._arms)
        if eligible is not None and candidates is None:
            eligible = [arm for arm in eligible if arm in self._own]
        result = np.zeros(len(self._arms))
        if eligible == []:
            result[chunk.eligible[row]] = 1 / chunk.eligible[row].sum()
        else:
            slot = int(chunk.slot[row])
            preview = self._bandit.preview(chunk.contexts[row], eligible, candidates, slot)
            result[[self._index[arm] for arm in preview.arms]] = preview.probabilities
        return result

    def _candidates(self, chunk: Chunk, row: int) -> Mapping[Arm, Any] | None:
        return chunk.features[row] if self._bandit.has_arm_features else None

    def learn(self, chunk: Chunk, row: int) -> None:
        """Learn from one row."""
        candidates, arm = self._candidates(chunk, row), self._arms[chunk.arm[row]]
        if chunk.examined[row] and (candidates is not None or arm in self._own):
            reward = float(chunk.raw_reward[row])
            self._bandit.learn(chunk.contexts[row], arm, reward, candidates, int(chunk.slot[row]))

    def visit(self, chunk: Chunk) -> Float64:
        """Return the choice probabilities of the bandit."""
        result = np.empty((len(chunk), len(self._arms)))
        for rows in chunk.rankings():
            for row in rows:
                result[row] = self.preview(chunk, row)
            if self.learns:
                for row in rows:
                    self.learn(chunk, row)
        return result

    def snapshot(self) -> Snapshot | None:
        """Return the state of a bandit that learns or draws random numbers."""
        return self._bandit.snapshot() if self.has_state else None

    def restore(self, state: Any) -> None:
        """Restore a snapshot."""
        if state is not None:
            self._bandit = OfflineBandit(Bandit._from_snapshot(state))


class RewardModel:
    """Predicts the reward of every arm from earlier rows, with the bandit's own learner."""

    has_state = True
    uses_contexts = True

    def __init__(self, bandit: Bandit, arms: Sequence[Arm], reward_range: tuple[float, float]) -> None:
        self._bandit, self._range = OfflineBandit(bandit), reward_range
        self._arms = tuple(arms)
        self._index = {arm: position for position, arm in enumerate(arms)}

    def visit(self, chunk: Chunk) -> tuple[Float64, Float64]:
        """Return the predicted reward of each arm in each row, scaled to [0, 1], and the encoded contexts.

        Then learn from the rows.
        """
        low, high = self._range
        predictions, encoded = np.full((len(chunk), len(self._arms)), low), []
        for row, context in enumerate(chunk.contexts):
            candidates = chunk.features[row] if self._bandit.has_arm_features else None
            preview = self._bandit.preview(context, candidates=candidates)
            predictions[row, [self._index[arm] for arm in preview.arms]] = preview.values
            encoded.append(preview.x.copy())
            arm, reward = self._arms[chunk.arm[row]], float(chunk.raw_reward[row])
            self._bandit.learn(context, arm, reward, candidates)
        return np.clip((predictions - low) / (high - low), 0.0, 1.0), np.array(encoded, np.float64)

    def snapshot(self) -> Snapshot:
        """Return the state."""
        return self._bandit.snapshot()

    def restore(self, state: Snapshot) -> None:
        """Restore a snapshot."""
        self._bandit = OfflineBandit(Bandit._from_snapshot(state))
