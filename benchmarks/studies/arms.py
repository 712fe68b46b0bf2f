"""Arms with features: rewards of shared learners, and how soon a new arm is used.

A new arm joins in the middle of a run. Its gain and cost appear in the regret since it joined: the sum of
differences between the expected rewards of the best arm and of the chosen arm. It is measured for a new arm
that is often the best, and for a new arm that never is.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple, Protocol

import numpy as np
from rich.table import Table

from benchmarks.studies.stored import StoredResults, available_policies, available_tasks
from benchmarks.vw_arms import VWArms
from glcb._arrays import Float32, Float64, Int64
from glcb._types import Rewards
from glcb.bench.statistics import format_mean
from glcb.policies import registry
from glcb.policies.base import Policy
from glcb.policies.shared import Candidates, OwnCorrections, estimate_candidates, join
from glcb.tasks import get
from glcb.tasks.arm_features import ArmCatalog, ArmNewcomer, ModelRouting
from glcb.tasks.base import Stream

STEPS = 5000
TASKS = (ArmCatalog.name, ModelRouting.name)
BEST, UNIFORM = "best possible", "uniform"
PERIODS = (100, 500, 3000)
"""Numbers of decisions since a new arm joined for which shares and regrets are reported."""


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
    """One policy for all arms, with or without per-arm corrections."""

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
    """A policy that learns about every arm separately and ignores arm features.

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
    """Incremented when the decisions change although the policy's decisions do not."""

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
"""The first learner is the default of ``Bandit`` for rewards of 0 and 1, the second for other rewards."""
ADD_ARM = Kind("glcb, add_arm", "glcb", _with_add_arm)
"""Like "glcb, per arm", but arms are added when they become available."""


class NewArmResult(NamedTuple):
    """The share and the regret of a new arm in one run."""

    shares: tuple[float, ...]
    """Its share in each of ``PERIODS``."""
    regrets: tuple[float, ...]
    """The regret in each of ``PERIODS``, over all chosen arms."""


def follow_newcomer(arms: Int64, expected: Float64, arrival: int) -> NewArmResult:
    """Return the results of a new arm, the last one.

    Parameters
    ----------
    arms
        The arm that was chosen, by step.
    expected
        The expected reward of every arm, by step.
    arrival
        The step at which the new arm joined.
    """
    chosen = arms[arrival:] == expected.shape[1] - 1
    regrets = (expected.max(axis=1) - expected[np.arange(arms.size), arms])[arrival:]
    return NewArmResult(
        tuple(float(chosen[:period].mean()) for period in PERIODS),
        tuple(float(regrets[:period].sum()) for period in PERIODS),
    )


def tables(stored: StoredResults, seeds: int, steps: int) -> Iterator[Table]:
    """Yield the rewards of all learners on all tasks, and the results of a new arm.

    The catalog has 1,000 arms that come and go, about 60 at a time. Of two shared learners, the first also
    has per-arm corrections, for binary rewards only. A new arm joins when 20 others are known.
    """
    tasks = available_tasks(TASKS)
    policies = available_policies([kind.policy for kind in KINDS])
    yield _reward_table(stored, tasks, [kind for kind in KINDS if kind.policy in policies], seeds, steps)
    length = ArmNewcomer.steps if steps == STEPS else steps
    for title, best_in in (("often the best", ArmNewcomer().best_in), ("never the best", 0.0)):
        task = ArmNewcomer(best_in=best_in)
        runs = {
            kind: [_newcomer(stored, task, kind, seed, length) for seed in range(seeds)]
            for kind in (BOTH, ADD_ARM)
        }
        yield _newcomer_table(f"A new arm that is {title}, mean ± s.e.", runs)


def _reward_table(
    stored: StoredResults, tasks: Sequence[str], kinds: Sequence[Kind], seeds: int, steps: int
) -> Table:
    rewards: dict[str, dict[str, list[float]]] = {}
    for name in tasks:
        task = get(name)
        for seed in range(seeds):
            stream = task.stream(seed, steps)
            totals = {BEST: stream.optimum}
            for kind in kinds:
                if task.rewards == "binary" or not kind.only_binary:
                    key = f"{kind.key} on {name}, {steps} steps, seed {seed}"
                    measure = partial(_total, kind, stream, task.rewards, seed)
                    totals[kind.name] = stored.get(kind.policy, key, measure)
            rows = (stream.rewards[step, available_arms(stream, step)] for step in range(stream.steps))
            totals[UNIFORM] = sum(float(row.mean()) for row in rows)
            for learner, total in totals.items():
                rewards.setdefault(learner, {}).setdefault(name, []).append(total)
    table = Table("learner", *tasks, title=f"Total reward in {steps:,} steps, mean ± s.e.")
    for learner, own in rewards.items():
        table.add_row(learner, *(format_mean(own[task], ",.0f") if task in own else "–" for task in tasks))
    return table


def _total(kind: Kind, stream: Stream, rewards: Rewards, seed: int) -> float:
    arms = run_learner(kind.make(stream, rewards, seed), stream)
    return float(stream.rewards[np.arange(stream.steps), arms].sum())


def _newcomer(stored: StoredResults, task: ArmNewcomer, kind: Kind, seed: int, steps: int) -> NewArmResult:
    """Return the results of a new arm; the chosen arms are stored."""

    def measure() -> list[int]:
        stream = task.stream(seed, steps)
        arms: list[int] = run_learner(kind.make(stream, task.rewards, seed), stream).tolist()
        return arms

    key = f"{kind.key} on {task.name}, best in {task.best_in:.0%}, {steps} steps, seed {seed}"
    chosen = np.array(stored.get(kind.policy, key, measure))
    return follow_newcomer(chosen, task.expected(seed, steps), task.arrival(steps))


def _newcomer_table(title: str, newcomers: Mapping[Kind, Sequence[NewArmResult]]) -> Table:
    headings = (f"{quantity}, first {period:,}" for quantity in ("share, %", "regret") for period in PERIODS)
    table = Table("learner", *headings, title=title)
    for kind, runs in newcomers.items():
        shares = 100 * np.array([each.shares for each in runs]).T
        regrets = np.array([each.regrets for each in runs]).T
        table.add_row(kind.name, *(format_mean(own.tolist(), ".1f") for own in (*shares, *regrets)))
    return table
