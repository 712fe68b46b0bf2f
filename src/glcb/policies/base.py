"""The one protocol that every policy follows: ``decide`` chooses an arm, ``learn`` takes a reward.

The base does, once, what all policies share: it checks what comes in, breaks ties, keeps the random
generator, counts plays, saves and loads, and holds the lock that makes all of it safe from many threads.
A policy writes only its own part: ``_estimate`` and ``_learn``, and ``_state`` and ``_restore`` for what
it has learned. If its arms may come and go, ``_rearranged`` too; if it can forget, ``_forget``.

Where rewards come late or never, a play is two events: ``issue`` when the arm is played, ``learn`` with
``counted=True`` when its reward is there. What an arm was tried is counted at the first, or an arm whose
rewards get lost would look untried for ever; what a reward teaches, and how fast, goes by the second.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, ClassVar, TypedDict

import numpy as np
from numpy.typing import ArrayLike

from glcb import _validation
from glcb._arrays import rearranged
from glcb._errors import InvalidSettings, NotSupported
from glcb._types import Arm, Float32, Float64, Int64, Rewards
from glcb.explain import Explanation
from glcb.explore import best_arm
from glcb.policies.decision import Decision, Estimates
from glcb.policies.state import PolicyState

__all__ = ["Common", "Decision", "Estimates", "Policy"]


class Common(TypedDict, total=False):
    """The optional arguments that every policy takes."""

    rewards: Rewards
    seed: int


class Policy(PolicyState, ABC):
    """A contextual bandit that learns from one reward at a time.

    ``arms`` is a number of arms or their names, ``features`` the length of a context, ``rewards`` is
    ``"binary"`` for rewards of 0 or 1, or the lowest and highest possible reward. All randomness comes
    from ``seed``.
    """

    stores_data: ClassVar[bool] = False
    """Whether the policy keeps every reward that it has seen, and so grows with its steps."""
    requires: ClassVar[tuple[str, ...]] = ()
    """Optional packages without which it cannot be made."""
    arms_are_independent: ClassVar[bool] = True
    """Whether learning from one arm leaves the values of the others as they were."""
    arms_can_change: ClassVar[bool] = False
    """Whether arms can be added and removed while it runs."""
    can_forget: ClassVar[bool] = False
    """Whether it takes ``half_life=``, after how many plays all evidence counts half."""
    half_life: int | None = None
    is_randomized: ClassVar[bool] = False
    """Whether its estimates hold a random draw; then what is said of a decision is said given that draw."""

    # ---- what a policy writes -------------------------------------------------------------------

    @abstractmethod
    def _estimate(self, x: Float32) -> Estimates:
        """Return what the policy thinks of every arm in context ``x``."""

    @abstractmethod
    def _learn(self, x: Float32, arm: int, reward: float) -> None:
        """Learn that ``arm`` (its number) brought ``reward`` in context ``x``."""

    def _count_decision(self, x: Float32, arm: int) -> None:
        """Count that ``arm`` is played in context ``x``, beyond the tries that the base counts."""

    def _count_and_learn(self, x: Float32, arm: int, reward: float) -> None:
        """Do both at once; a policy may know a faster way."""
        self._learn(x, arm, reward)
        self._count_decision(x, arm)

    def _ensure_capacity(self) -> None:
        """Have the memory at hand that one more step can need: it is missed here, or not at all."""

    def _estimate_many(self, contexts: Float32) -> Iterable[Estimates]:
        """Return what the policy thinks in each of many contexts; a policy may know a faster way."""
        return map(self._estimate, contexts)

    def _attribute(self, x: Float32, baseline: Float32) -> tuple[Float64, Float64]:
        """Return each arm's value for the baseline, and what each feature adds to it: [arms, features]."""
        raise NotSupported(
            f"{type(self).__name__} cannot explain its values: use a policy that can, such as glcb or linucb"
        )

    def _rearranged(self, sources: Int64) -> dict[str, Any]:
        """Return the attributes with which arm j has learned what arm ``sources[j]`` has, or nothing for −1.

        Arms come and go. Nothing is changed here: the base takes all of it at once.
        """
        raise NotImplementedError

    def _forget(self) -> None:
        """Let all evidence so far count half; ``plays`` and ``steps`` still count everything."""
        raise NotImplementedError

    # ---- what everybody uses --------------------------------------------------------------------

    @property
    def reward_counts(self) -> dict[Arm, int]:
        """Number of rewards learned so far, for each arm."""
        with self._lock:
            return dict(zip(self.arms, self._plays.tolist(), strict=True))

    def decide(self, x: ArrayLike, *, eligible: Iterable[Arm] | None = None) -> Decision:
        """Choose an arm for the context ``x``, among the ``eligible`` ones if given. Learns nothing."""
        context = _validation.context(x, self.features)
        with self._lock:
            allowed = None if eligible is None else _validation.eligible(eligible, self._index)
            estimates = self._estimate(context)
            best = best_arm(estimates.values, estimates.bonuses, allowed, self._rng)
            return Decision(self.arms[best], self.arms, estimates)

    def decide_many(self, contexts: ArrayLike, *, eligible: Iterable[Arm] | None = None) -> list[Decision]:
        """Choose an arm for each of many contexts: what :meth:`decide` would do one by one, but sooner."""
        rows = _validation.contexts(contexts, self.features)
        with self._lock:
            allowed = None if eligible is None else _validation.eligible(eligible, self._index)
            decisions = []
            for estimates in self._estimate_many(rows):
                best = best_arm(estimates.values, estimates.bonuses, allowed, self._rng)
                decisions.append(Decision(self.arms[best], self.arms, estimates))
        return decisions

    def estimate(self, x: ArrayLike) -> Estimates:
        """Return what the policy thinks of every arm in the context ``x``. Learns nothing."""
        context = _validation.context(x, self.features)
        with self._lock:
            return self._estimate(context)

    def explain(self, x: ArrayLike, *, baseline: ArrayLike | None = None) -> Explanation:
        """Return what each feature of ``x`` contributes to the value of every arm. Changes nothing.

        Contributions are differences to the value of a ``baseline`` with the same gates open, by default a
        context of ½ everywhere: there, all inputs of the networks are 0 but the bias.
        """
        context = _validation.context(x, self.features)
        middle: Float32 = np.full(self.features, 0.5, np.float32)
        origin = middle if baseline is None else _validation.context(baseline, self.features)
        with self._lock:
            bases, contributions = self._attribute(context, origin)
            generator = self._rng.bit_generator.state
            estimates = self._estimate(context)
            self._rng.bit_generator.state = generator  # the next decision draws as if nobody had asked
            return Explanation(
                self.arms,
                tuple(map(str, range(self.features))),
                tuple(f"{value:.4g}" for value in context.tolist()),
                bases,
                contributions,
                estimates.values,
                estimates.bonuses,
                estimates.pseudocounts,
                self.is_randomized,
            )

    def ensure_capacity(self) -> None:
        """Have the memory at hand that one more step can need, so that :meth:`count_decision` cannot fail for it."""
        with self._lock:
            self._ensure_capacity()

    def count_decision(self, x: ArrayLike, arm: Arm) -> None:
        """Count that ``arm`` is played in context ``x``; its reward comes later, or never."""
        context = _validation.context(x, self.features)
        with self._lock:
            index = _validation.arm(arm, self._index)
            self._ensure_capacity()
            self._count_decision(context, index)
            self._count_try(index)

    def learn(self, x: ArrayLike, arm: Arm, reward: float, *, counted: bool = False) -> None:
        """Learn that ``arm``, played in context ``x``, brought ``reward``.

        With ``counted`` the play itself was counted by :meth:`count_decision`, and is not counted again. Only an
        interrupt (Ctrl-C) in the very middle of it can leave a step half learned.
        """
        context = _validation.context(x, self.features)
        value = _validation.reward(reward, self.rewards)
        with self._lock:
            index = _validation.arm(arm, self._index)
            self._take_in(context, index, value, counted)

    def learn_many(self, contexts: ArrayLike, arms: Iterable[Arm], rewards: Iterable[float]) -> None:
        """Learn many rewards in the given order, as :meth:`learn` would; all are checked before the first."""
        rows = _validation.contexts(contexts, self.features)
        played = _validation.listed("arms", arms, len(rows))
        brought = _validation.listed("rewards", rewards, len(rows))
        values = [_validation.reward(reward, self.rewards) for reward in brought]
        with self._lock:
            indices = [_validation.arm(arm, self._index) for arm in played]
            for x, index, value in zip(rows, indices, values, strict=True):
                self._take_in(x, index, value)

    def _take_in(self, x: Float32, arm: int, reward: float, counted: bool = False) -> None:
        self._ensure_capacity()
        if counted:
            self._learn(x, arm, reward)
        else:
            self._count_and_learn(x, arm, reward)
            self._count_try(arm)
        self._plays[arm] += 1
        self._steps += 1

    def _count_try(self, arm: int) -> None:
        self._tried[arm] += 1
        self._turns += 1
        if self.half_life is not None and self._turns % self.half_life == 0:
            self._forget()

    def add_arm(self, name: Arm, *, like: Arm | None = None) -> None:
        """Add an arm: a fresh one, or a copy of the arm ``like`` with all it has learned, its plays included.

        What is known of the other arms stays as it is.
        """
        with self._lock:
            new = _validation.new_arm(name, self._index)
            source = -1 if like is None else _validation.arm(like, self._index)
            self._take_arms((*self.arms, new), [*range(len(self.arms)), source])

    def remove_arm(self, name: Arm) -> None:
        """Remove an arm and forget what was learned of it. What is known of the others stays as it is."""
        with self._lock:
            index = _validation.arm(name, self._index)
            if len(self.arms) == 1:
                raise InvalidSettings(f"{name!r} is the only arm: add another one before removing it")
            left = [other for other in range(len(self.arms)) if other != index]
            self._take_arms(tuple(self.arms[other] for other in left), left)

    def _take_arms(self, arms: tuple[Arm, ...], sources: list[int]) -> None:
        if not self.arms_can_change:
            raise NotSupported(
                f"{type(self).__name__} cannot add or remove arms while it runs: make a new one with all arms"
            )
        order = np.array(sources, np.int64)
        plays, tried = rearranged(self._plays, order, 0), rearranged(self._tried, order, 0)
        index = {arm: number for number, arm in enumerate(arms)}
        changed = self._rearranged(order)
        # One call that no interrupt can split: arms and what was learned of them always fit.
        vars(self).update(changed, arms=arms, _index=index, _plays=plays, _tried=tried)
