"""Routing between language models: quality at a budget, of the router and of ParetoBandit's rule."""

from collections.abc import Callable, Iterator, Mapping
from typing import Protocol

import numpy as np
from rich.table import Table

from benchmarks.studies.stored import StoredResults
from glcb._prompts import PROMPT_COUNTS
from glcb.bench.statistics import format_mean
from glcb.route import Model, Router, evaluate_routes
from glcb.tasks.routing import Routing4, RoutingStream, RoutingTask

VERSION = 2
"""Version of the router and the rules in stored results."""
STEPS = 5000
"""Number of prompts, at most; the table has fewer."""
BUDGETS = (0.0001, 0.0002, 0.00049, 0.0009, 0.002, 0.005, 0.01, 0.015)
PARETO_COMPONENTS = 25


class Rule(Protocol):
    """Chooses a model for each prompt and learns from its quality and cost."""

    def choose(self, stream: RoutingStream, step: int) -> int:
        """Return the index of a model."""

    def learn(self, quality: float, cost: float) -> None:
        """Learn the result of the last choice."""


class RouterRule:
    """The router. Prices are the mean costs of the unscored prompts."""

    def __init__(self, task: RoutingTask, seed: int, budget: float) -> None:
        self._names = task.arms
        models = {name: Model(price=price) for name, price in zip(task.arms, mean_costs(task), strict=True)}
        self._router = Router(models, rewards=task.rewards, seed=seed, budget=budget)
        self._route = ""

    def choose(self, stream: RoutingStream, step: int) -> int:
        """Return the index of a model."""
        route = self._router.route(context=stream.features(step))
        self._route = route.id
        return self._names.index(route.model)

    def learn(self, quality: float, cost: float) -> None:
        """Learn the result of the last choice."""
        self._router.reward(self._route, quality, cost=cost)


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
        The target for the mean cost.
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
        budget: float,
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

    def choose(self, stream: RoutingStream, step: int) -> int:
        """Return the index of a model."""
        features = stream.contexts[step, : self._x.size - 1].astype(np.float64)
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
        changed = self._penalty + self._rate * (cost / self._budget - 1)
        self._penalty = min(max(changed, 0.0), 10.0)


def mean_costs(task: RoutingTask) -> list[float]:
    """Return the mean cost of each model over the unscored prompts."""
    costs: list[float] = task.unscored_costs.mean(axis=0).tolist()
    return costs


RULES: Mapping[str, Callable[[RoutingTask, int, float], Rule]] = {
    "router": RouterRule,
    "ParetoBandit's rule": ParetoRule,
}


def tables(stored: StoredResults, seeds: int, steps: int) -> Iterator[Table]:
    """Yield the quality, the cost and the gain of the rules at every budget, over orders of the same prompts.

    The gain is the quality above the hull of the single models at the same cost.
    """
    table = Table("rule", "budget, $", "quality", "cost / budget", "gain × 1,000", title="routing-4")
    for rule in RULES:
        for budget in BUDGETS:
            rows = [_measure(stored, rule, budget, seed, steps) for seed in range(seeds)]
            quality, cost, gain = np.array(rows).T.tolist()
            shares = [each / budget for each in cost]
            gains = [1000 * each for each in gain]
            texts = (format_mean(quality, ".4f"), format_mean(shares, ".3f"), format_mean(gains, "+.1f"))
            table.add_row(rule, f"{budget:g}", *texts)
    yield table


def _measure(stored: StoredResults, rule: str, budget: float, seed: int, steps: int) -> list[float]:
    def measure() -> list[float]:
        task = Routing4()
        stream = task.stream(seed, steps)
        chooser, chosen = RULES[rule](task, seed, budget), []
        for step in range(stream.steps):
            arm = chooser.choose(stream, step)
            chooser.learn(float(stream.rewards[step, arm]), float(stream.costs[step, arm]))
            chosen.append(arm)
        result = evaluate_routes(chosen, stream.rewards, stream.costs)
        return [result.quality, result.cost, result.gain]

    return stored.get("glcb", f"routing {VERSION} {steps} {seed} budget {rule} {budget}", measure)
