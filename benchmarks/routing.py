"""How much can routing gain? Regressions that see the quality and cost of every model, on the task routing-4.

    python -m benchmarks.routing            # needs GLCB_DATA_DIR

``offline`` learns from 90% of the prompts and routes the rest, in ten folds. ``online`` learns from all
earlier prompts of an order, with the pacer of the router. Both see the answers of all models, so they pay
nothing for exploration: a router that sees one answer per prompt should not be expected to do better with the
same features. The gain is the quality above the hull of the single models at the same cost.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from sklearn.ensemble import ExtraTreesRegressor
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import KFold
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from glcb._arrays import Float64
from glcb.route import Frontier, evaluate_routes
from glcb.route.costs import BudgetPacer, Usage, usage_inputs
from glcb.tasks.routing import Routing4

BUDGETS = (0.00049, 0.0009)
ORDERS = 10
RIDGE = 1000.0
RATE = 0.0015
"""The pacing rate of the router."""

_REGRESSIONS: dict[str, Callable[[], Any]] = {
    "ridge": lambda: make_pipeline(StandardScaler(), RidgeCV(np.logspace(0, 5, 11))),
    "100 nearest neighbors": lambda: make_pipeline(StandardScaler(), KNeighborsRegressor(100)),
    "200 extra trees": lambda: ExtraTreesRegressor(
        200, min_samples_leaf=10, max_features=0.5, random_state=0
    ),
}


def offline_gains(make: Callable[[], Any], seed: int) -> list[float]:
    """Return the gains of predictions for held-out prompts, at each budget."""
    stream = Routing4().stream(seed)
    features = np.hstack([stream.counts, stream.embeddings])
    qualities, costs = np.zeros_like(stream.rewards), np.zeros_like(stream.costs)
    for train, test in KFold(10, shuffle=True, random_state=seed).split(features):
        qualities[test] = make().fit(features[train], stream.rewards[train]).predict(features[test])
        usage = make().fit(features[train], np.log(stream.costs[train])).predict(features[test])
        costs[test] = np.exp(usage)
    costs *= stream.costs.mean(axis=0) / costs.mean(axis=0)
    rows = np.arange(stream.steps)
    points = []
    for penalty in np.geomspace(0.01, 100_000, 2000):
        chosen = np.argmax(qualities - penalty * costs, axis=1)
        points.append((stream.costs[rows, chosen].mean(), stream.rewards[rows, chosen].mean()))
    spent, reached = np.array(sorted(points)).T
    hull = Frontier.of_models(stream.costs.mean(axis=0), stream.rewards.mean(axis=0))
    return [float(np.interp(budget, spent, reached)) - hull.quality_at(budget) for budget in BUDGETS]


def online_gain(budget: float, seed: int) -> float:
    """Return the gain of ridge regressions that learn the results of all models after every prompt."""
    task = Routing4()
    stream = task.stream(seed)
    inputs = np.hstack([stream.contexts - stream.contexts.mean(axis=0), np.ones((stream.steps, 1))])
    inputs[:, :-1] /= inputs[:, :-1].std(axis=0)
    size, models = inputs.shape[1], len(task.arms)
    prior = np.append(np.full(size - 1, RIDGE), 1.0)
    inverse: Float64 = np.diag(1 / prior)
    weights: Float64 = np.zeros((models, size))
    weights[:, -1] = 0.9
    prices = task.unscored_costs.mean(axis=0)
    usage, pacer, chosen = Usage(models), BudgetPacer(budget, RATE, 10.0), []
    for step, x in enumerate(inputs):
        counts = usage_inputs(stream.features(step))
        costs = usage.predict(counts) * prices
        model = int(np.argmax(weights @ x - pacer.penalty * costs / budget))
        pacer.charge(float(stream.costs[step, model]))
        chosen.append(model)
        product = inverse @ x
        gain = product / (1 + x @ product)
        weights += np.outer(stream.rewards[step] - weights @ x, gain)
        inverse = inverse - np.outer(gain, product)
        for index in range(models):
            usage.learn(index, counts, float(stream.costs[step, index] / prices[index]))
    return evaluate_routes(chosen, stream.rewards, stream.costs).gain


def main() -> None:
    """Print the gains, times 1,000."""
    table = Table("every answer known", *(f"${budget:g}" for budget in BUDGETS), title="Gain × 1,000")
    for name, make in _REGRESSIONS.items():
        found = 1000 * np.mean([offline_gains(make, seed) for seed in range(3)], axis=0)
        table.add_row(f"offline: {name}", *(f"{gain:+.1f}" for gain in found))
    gains = [[1000 * online_gain(budget, seed) for seed in range(ORDERS)] for budget in BUDGETS]
    texts = (f"{np.mean(own):+.1f} ± {np.std(own, ddof=1) / ORDERS**0.5:.1f}" for own in gains)
    table.add_row("online: ridge", *texts)
    Console().print(table)


if __name__ == "__main__":
    main()
