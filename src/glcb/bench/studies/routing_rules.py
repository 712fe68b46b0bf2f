"""The router and its opponents on a table of prompts: who chooses which model, and at what speed."""

import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np

from glcb._prompts import PROMPT_COUNTS
from glcb.policies import registry
from glcb.route import Model, Router
from glcb.tasks.routing import RoutingStream, RoutingTask

PARETO_COMPONENTS = 25
"""Number of components that ParetoBandit's rule and LinUCB use, in the publication and here."""


class RuleInput(NamedTuple):
    """What a rule knows about one prompt."""

    context: np.ndarray
    """Counts and components, scaled to [0, 1]."""
    features: dict[str, Any]
    """The same by name, not scaled."""


class Rule(Protocol):
    """Chooses a model for each prompt and learns from its quality and cost."""

    def choose(self, prompt: RuleInput) -> int:
        """Return the index of a model."""

    def learn(self, quality: float, cost: float) -> None:
        """Learn the result of the last choice."""


class RouterRule:
    """The router. Prices are the mean costs of the prompts that are not scored.

    Parameters
    ----------
    task
        The task.
    seed
        Seed of the router.
    settings
        Further arguments of the router.
    """

    def __init__(self, task: RoutingTask, seed: int, **settings: object) -> None:
        self.names = task.arms
        models = {name: Model(price=price) for name, price in zip(self.names, mean_costs(task), strict=True)}
        self.router = Router(models, rewards=task.rewards, seed=seed, **settings)  # type: ignore[arg-type]
        self._route = ""

    def choose(self, prompt: RuleInput) -> int:
        """Return the index of a model."""
        route = self.router.route(context=prompt.features)
        self._route = route.id
        return self.names.index(route.model)

    def learn(self, quality: float, cost: float) -> None:
        """Learn the result of the last choice."""
        self.router.reward(self._route, quality, cost=cost)


class PolicyRule:
    """A policy of the registry, which ignores costs."""

    def __init__(self, task: RoutingTask, seed: int, policy: str) -> None:
        create = registry.get(policy).create
        self._policy = create(range(len(task.arms)), task.features, rewards=task.rewards, seed=seed)
        self._context, self._arm = np.zeros(0), 0

    def choose(self, prompt: RuleInput) -> int:
        """Return the index of a model."""
        self._context, self._arm = prompt.context, int(self._policy.decide(prompt.context).arm)
        return self._arm

    def learn(self, quality: float, cost: float) -> None:
        """Learn the result of the last choice."""
        self._policy.learn(self._context, self._arm, quality)


class NearestNeighbors:
    """The mean quality of each model on the nearest prompts it has answered; explores at random.

    Parameters
    ----------
    task
        The task.
    seed
        Seed of the exploration.
    neighbors
        Number of prompts.
    exploration
        Probability of a random model.
    """

    def __init__(self, task: RoutingTask, seed: int, neighbors: int = 40, exploration: float = 0.05) -> None:
        self._rng = np.random.default_rng((seed, 1))
        self._neighbors, self._exploration = neighbors, exploration
        self._vectors = [np.zeros((task.steps, task.features), np.float32) for _ in task.arms]
        self._qualities = [np.zeros(task.steps) for _ in task.arms]
        self._sizes = [0] * len(task.arms)
        self._context, self._arm = np.zeros(0), 0

    def choose(self, prompt: RuleInput) -> int:
        """Return the index of a model."""
        self._context = prompt.context
        if min(self._sizes) == 0:
            self._arm = self._sizes.index(0)
        elif self._rng.random() < self._exploration:
            self._arm = int(self._rng.integers(len(self._sizes)))
        else:
            self._arm = int(np.argmax([self._estimate(arm) for arm in range(len(self._sizes))]))
        return self._arm

    def _estimate(self, arm: int) -> float:
        size, count = self._sizes[arm], min(self._neighbors, self._sizes[arm])
        vectors, qualities = self._vectors[arm][:size], self._qualities[arm][:size]
        distances = ((vectors - self._context) ** 2).sum(axis=1)
        nearest = np.argpartition(distances, count - 1)[:count]
        return float(qualities[nearest].mean())

    def learn(self, quality: float, cost: float) -> None:
        """Learn the result of the last choice."""
        arm, size = self._arm, self._sizes[self._arm]
        self._vectors[arm][size], self._qualities[arm][size] = self._context, quality
        self._sizes[arm] += 1


class ParetoRule:
    """ParetoBandit's rule: LinUCB with forgetting, minus λ times the normalized logarithm of the mean cost.

    The mean cost of each model is known. λ follows the budget as in the router.

    Parameters
    ----------
    task
        The task.
    seed
        Seed of the generator that breaks ties, so that the first choice does not depend on names.
    budget
        The target for the mean cost; None ignores costs.
    forgetting
        Weight of earlier evidence per decision.
    alpha
        Size of the bonus.
    rate
        Step size of λ.
    """

    def __init__(
        self,
        task: RoutingTask,
        seed: int,
        budget: float | None,
        forgetting: float = 0.997,
        alpha: float = 0.3,
        rate: float = 0.01,
    ) -> None:
        size, arms = len(PROMPT_COUNTS) + PARETO_COMPONENTS + 1, len(task.arms)
        costs = np.log(mean_costs(task))
        self._costs = (costs - costs.min()) / max(float(np.ptp(costs)), 1e-12)
        self._budget, self._forgetting, self._alpha, self._rate = budget, forgetting, alpha, rate
        self._precisions = np.tile(np.eye(size), (arms, 1, 1))
        self._sums = np.zeros((arms, size))
        self._inverses = np.tile(np.eye(size), (arms, 1, 1))
        self._x, self._arm, self._penalty = np.zeros(size), 0, 0.0
        self._rng = np.random.default_rng((seed, 2))

    def choose(self, prompt: RuleInput) -> int:
        """Return the index of a model."""
        features = prompt.context[: self._x.size - 1].astype(np.float64)
        self._x = np.concatenate([features, [1.0]])
        weights = np.einsum("aij,aj->ai", self._inverses, self._sums)
        variances = np.einsum("i,aij,j->a", self._x, self._inverses, self._x)
        scores = weights @ self._x + self._alpha * np.sqrt(variances) - self._penalty * self._costs
        self._arm = int(self._rng.choice(np.flatnonzero(scores == scores.max())))
        return self._arm

    def learn(self, quality: float, cost: float) -> None:
        """Learn the result of the last choice."""
        arm, x, keep = self._arm, self._x, self._forgetting
        self._precisions[arm] = keep * self._precisions[arm] + np.outer(x, x) + (1 - keep) * np.eye(x.size)
        self._sums[arm] = keep * self._sums[arm] + quality * x
        self._inverses[arm] = np.linalg.inv(self._precisions[arm])
        if self._budget is not None:
            changed = self._penalty + self._rate * (cost / self._budget - 1)
            self._penalty = min(max(changed, 0.0), 10.0)


def mean_costs(task: RoutingTask) -> list[float]:
    """Return the mean cost of each model over the prompts that are not scored."""
    costs: list[float] = task.unscored_costs.mean(axis=0).tolist()
    return costs


class Played(NamedTuple):
    """The choices of a rule and the time they took."""

    chosen: list[int]
    decide_us: float
    """Median CPU time of a choice, in microseconds."""
    learn_us: float


def play(rule: Rule, stream: RoutingStream, at: Mapping[int, Callable[[], None]] | None = None) -> Played:
    """Let a rule choose for every prompt of a stream. `at` has what happens before certain prompts."""
    chosen, decide, learn = [], [], []
    for step in range(stream.steps):
        if at is not None and step in at:
            at[step]()
        prompt = RuleInput(stream.contexts[step], stream.features(step))
        start = time.process_time()
        arm = rule.choose(prompt)
        middle = time.process_time()
        rule.learn(float(stream.rewards[step, arm]), float(stream.costs[step, arm]))
        learn.append(time.process_time() - middle)
        decide.append(middle - start)
        chosen.append(arm)
    return Played(chosen, 1e6 * float(np.median(decide)), 1e6 * float(np.median(learn)))
