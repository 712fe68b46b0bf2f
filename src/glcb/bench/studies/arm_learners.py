"""Learners that use the features of arms, and one that does not, behind one interface."""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from glcb._arrays import Float32, Int64
from glcb._types import Rewards
from glcb.policies import registry
from glcb.policies.base import Policy
from glcb.policies.rivals.vw_arms import VWArms
from glcb.policies.shared import Candidates, OwnCorrections, estimate_candidates, join
from glcb.tasks.base import Stream


class Learner(Protocol):
    """Chooses one of the available arms and learns its reward."""

    def choose(self, x: Float32, available: Sequence[int]) -> int:
        """Return one of the available arms."""

    def learn(self, x: Float32, arm: int, reward: float) -> None:
        """Learn the reward of the arm that was chosen last."""


def available_arms(stream: Stream, step: int) -> list[int]:
    """Return the arms that can be chosen at a step."""
    if stream.available is None:
        return list(range(stream.rewards.shape[1]))
    return np.flatnonzero(stream.available[step]).tolist()


def run_learner(learner: Learner, stream: Stream) -> Int64:
    """Return the arms that a learner chooses on a stream."""
    arms: Int64 = np.empty(stream.steps, np.int64)
    for step, x in enumerate(stream.contexts):
        arms[step] = learner.choose(x, available_arms(stream, step))
        learner.learn(x, int(arms[step]), float(stream.rewards[step, arms[step]]))
    return arms


class Shared:
    """One policy for all arms, with or without what each arm has learned for itself."""

    def __init__(self, policy: Policy, arms: Float32, own: OwnCorrections | None) -> None:
        self._policy, self._own, self._all = policy, own, Candidates(arms)
        self._rng = np.random.default_rng(0)

    def choose(self, x: Float32, available: Sequence[int]) -> int:
        """Return the arm with the best score."""
        estimates = estimate_candidates(self._policy, x, self._all.take(list(available)))
        if self._own is not None:
            estimates = self._own.correct(x, tuple(available), estimates)
        scores = estimates.values + estimates.bonuses
        return available[int(self._rng.choice(np.flatnonzero(scores == scores.max())))]

    def learn(self, x: Float32, arm: int, reward: float) -> None:
        """Learn the reward of an arm."""
        joint = join(x, self._all, arm)
        if self._own is not None:
            self._own.count_decision(arm)
            self._own.learn(x, arm, reward, float(self._policy.estimate(joint).values[0]))
        self._policy.learn(joint, 0, reward)


class PerArm:
    """A policy that learns about every arm separately and does not use features of arms.

    An arm that the policy does not have is added untrained when it becomes available.
    """

    def __init__(self, policy: Policy) -> None:
        self._policy, self._known = policy, set(policy.arms)

    def choose(self, x: Float32, available: Sequence[int]) -> int:
        """Return the arm with the best score."""
        for arm in available:
            if arm not in self._known:
                self._policy.add_arm(arm)
                self._known.add(arm)
        return int(self._policy.decide(x, eligible=available).arm)

    def learn(self, x: Float32, arm: int, reward: float) -> None:
        """Learn the reward of an arm."""
        self._policy.learn(x, arm, reward)


MakeLearner = Callable[[Stream, Rewards, int], Learner]
"""Returns an untrained learner for the arms of a stream, the kind of reward and a seed."""


class Kind(NamedTuple):
    """A kind of learner."""

    name: str
    policy: str
    """The policy whose version results depend on."""
    make: MakeLearner
    only_binary: bool = False
    version: int = 1
    """Increases when the decisions change although those of the policy do not."""

    @property
    def key(self) -> str:
        """Names the learner and its version in stored results."""
        return f"{self.name}, version {self.version}"


def _shared(name: str, own: bool = False) -> MakeLearner:
    def make(stream: Stream, rewards: Rewards, seed: int) -> Learner:
        assert stream.arm_features is not None
        context, features = stream.contexts.shape[1], stream.arm_features.shape[1]
        policy = registry.make_policy(name, 1, context + features, rewards=rewards, seed=seed)
        return Shared(policy, stream.arm_features, OwnCorrections(context) if own else None)

    return make


def _per_arm(stream: Stream, rewards: Rewards, seed: int) -> Learner:
    return _separate(range(stream.rewards.shape[1]), stream, rewards, seed)


def _with_add_arm(stream: Stream, rewards: Rewards, seed: int) -> Learner:
    return _separate(available_arms(stream, 0), stream, rewards, seed)


def _separate(arms: Sequence[int], stream: Stream, rewards: Rewards, seed: int) -> Learner:
    policy = registry.make_policy("glcb", arms, stream.contexts.shape[1], rewards=rewards, seed=seed)
    return PerArm(policy)


def _vowpal_wabbit(stream: Stream, rewards: Rewards, seed: int) -> Learner:
    assert stream.arm_features is not None
    return VWArms(stream.arm_features, rewards=rewards, seed=seed)


BOTH = Kind("glcb, shared and per arm", "glcb", _shared("glcb", own=True), only_binary=True, version=2)
KINDS = (
    BOTH,
    Kind("glcb, shared", "glcb", _shared("glcb")),
    Kind("glcb, per arm", "glcb", _per_arm),
    Kind("linucb, shared", "linucb", _shared("linucb")),
    Kind("lints, shared", "lints", _shared("lints")),
    Kind("Vowpal Wabbit, -q", "vw-squarecb", _vowpal_wabbit),
)
"""The first is what ``Bandit`` uses for rewards of 0 and 1, and the second for others."""
ADD_ARM = Kind("glcb, add_arm", "glcb", _with_add_arm)
"""Like "glcb, per arm", but arms are added when they become available."""
