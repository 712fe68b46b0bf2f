"""Stream a table of real prompts through a router: quality by cost, a price change, new and changed models.

    GLCB_DATA_DIR=data python examples/router.py --figure router.png

It needs the folder ``routing`` in the data directory: 1,500 prompts, each answered by four language models,
with the score of a judge and the cost in dollars (ParetoBandit, Apache-2.0). Nothing is sent anywhere.
"""

import argparse
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np

from glcb.bench.figures import figure
from glcb.route import Frontier, Model, Router, RoutingResult, evaluate_routes
from glcb.tasks.routing import Routing4, RoutingStream

BUDGETS = (0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005)
FLASH = "google/gemini-2.5-flash"
MISTRAL = "mistralai/mistral-large-2512"
BLOCK = 150
"""Number of prompts per line of the report."""


def make_router(
    task: Routing4, budget: float, models: tuple[str, ...], half_life: int | None = None
) -> Router:
    """Return a router. Prices are the mean costs of unscored prompts."""
    prices = dict(zip(task.arms, task.unscored_costs.mean(axis=0).tolist(), strict=True))
    return Router({name: Model(price=prices[name]) for name in models}, budget=budget, half_life=half_life)


def stream_through(
    router: Router, models: tuple[str, ...], stream: RoutingStream, events: dict[int, Callable[[], None]]
) -> list[int]:
    """Route every prompt, report the quality and the cost, and return the chosen columns of the table."""
    chosen = []
    for step in range(stream.steps):
        if step in events:
            events[step]()
        route = router.route(context=stream.features(step))
        column = models.index(route.model)
        router.reward(route.id, stream.rewards[step, column], cost=stream.costs[step, column])
        chosen.append(column)
    return chosen


def quality_cost_curve(task: Routing4, prompts: int) -> list[RoutingResult]:
    """Print and return quality and cost at several budgets."""
    stream = task.stream(seed=0, steps=prompts)
    for name, quality, cost in zip(task.arms, stream.rewards.mean(0), stream.costs.mean(0), strict=True):
        print(f"{name:36} quality {quality:.3f}, ${cost:.5f} per request")
    print("\n  budget      cost   quality   gain over mixtures   savings against the largest")
    results = []
    for budget in BUDGETS:
        router = make_router(task, budget, task.arms)
        chosen = stream_through(router, task.arms, stream, {})
        result = evaluate_routes(chosen, stream.rewards, stream.costs)
        print(
            f"{budget:8.5f}  {result.cost:.6f}   {result.quality:.3f}    {result.gain:+19.4f}   "
            f"{result.savings:>9.0%}"
        )
        results.append(result)
    return results


def show_changes(task: Routing4, prompts: int) -> None:
    """Print the share of every model while prices and models change."""
    stream = task.stream(seed=0, steps=prompts)
    rewards, costs = stream.rewards.copy(), stream.costs.copy()
    quarter = stream.steps // 4
    expensive, added, worse = quarter, 2 * quarter, 3 * quarter
    mistral, flash = task.arms.index(MISTRAL), task.arms.index(FLASH)
    costs[expensive:, mistral] *= 10
    rewards[worse:, flash] *= 0.3
    changed = replace(stream, rewards=rewards, costs=costs)
    first = tuple(name for name in task.arms if name != FLASH)
    router = make_router(task, 0.001, first, half_life=300)
    prices = dict(zip(task.arms, task.unscored_costs.mean(axis=0).tolist(), strict=True))
    events: dict[int, Callable[[], None]] = {
        expensive: lambda: router.set_price(MISTRAL, 10 * prices[MISTRAL]),
        added: lambda: router.add_model(FLASH, prices[FLASH]),
    }
    chosen = np.array(stream_through(router, task.arms, changed, events))
    notes = {
        expensive: f"{MISTRAL} costs ten times as much",
        added: f"{FLASH} is new",
        worse: f"{FLASH} gets worse",
    }
    print("\nprompts      " + "  ".join(f"{name.partition('/')[2][:18]:>18}" for name in task.arms))
    for start in range(0, stream.steps, BLOCK):
        for step, note in notes.items():
            if start <= step < start + BLOCK:
                print(f"             from prompt {step}: {note}")
        block = chosen[start : start + BLOCK]
        shares = [float((block == column).mean()) for column in range(len(task.arms))]
        print(f"{start:5}–{start + len(block):<5}  " + "  ".join(f"{share:18.0%}" for share in shares))
    print(f"\n{router.explain(context=stream.features(stream.steps - 1))}")


def draw(task: Routing4, prompts: int, results: list[RoutingResult], path: Path) -> None:
    """Draw quality by cost."""
    stream = task.stream(seed=0, steps=prompts)
    frontier = Frontier.of_models(stream.costs.mean(axis=0), stream.rewards.mean(axis=0))
    with figure(path, width=6, height=4) as (panel,):
        panel.plot([r.cost for r in results], [r.quality for r in results], "o-", label="router")
        panel.plot(frontier.costs, frontier.qualities, "s--", label="mixtures of single models")
        panel.set(xscale="log", xlabel="mean cost of a request, $", ylabel="mean quality")
        panel.legend(frameon=False)
    print(f"\nfigure: {path}")


def main() -> None:
    """Parse the arguments and run everything."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--prompts", type=int, default=1500, help="number of prompts")
    parser.add_argument("--figure", type=Path, help="file for the figure, such as router.png")
    arguments = parser.parse_args()
    task = Routing4()
    results = quality_cost_curve(task, arguments.prompts)
    show_changes(task, arguments.prompts)
    if arguments.figure is not None:
        draw(task, arguments.prompts, results, arguments.figure)


if __name__ == "__main__":
    main()
