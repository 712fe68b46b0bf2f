"""Routing study: quality at a budget, wide embeddings, and changes of prices and models."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import ClassVar, NamedTuple, Self

import numpy as np
from rich.table import Table

from glcb._arrays import Float64
from glcb.bench.figures import figure
from glcb.bench.studies.base import Study, StudyContext, StudyResult, available_tasks, format_mean
from glcb.bench.studies.registry import register
from glcb.bench.studies.routing_rules import (
    NearestNeighbors,
    ParetoRule,
    PolicyRule,
    RouterRule,
    Rule,
    play,
)
from glcb.bench.studies.stored import StoredResults
from glcb.route import Frontier, evaluate_routes
from glcb.tasks.routing import Routing4, Routing9, RoutingStream, RoutingTask

VERSION = 2
"""Version of the router and the rules in stored results."""
BUDGETS = (0.00049, 0.0009)
"""The mean costs of two of the models: mistral-large and gemini-flash."""
CURVE = (0.0001, 0.0002, *BUDGETS, 0.002, 0.005, 0.01, 0.015)
"""The budgets of the quality–cost curve."""
WIDTHS = (25, 64, 384, 768)
REFERENCE = "google/gemini-2.5-pro"
CHANGED = "mistralai/mistral-large-2512"
"""The model whose price or quality changes in the middle."""
SUBSTITUTE = "meta-llama/llama-3.1-8b-instruct"
"""The model whose answers it gives from then on, if its quality changes."""
WINDOW = 25
"""Number of prompts over which the share of a model is measured."""

_BUDGET_RULES: Mapping[str, Callable[[RoutingTask, int, float], Rule]] = {
    "router": lambda task, seed, budget: RouterRule(task, seed, budget=budget),
    "ParetoBandit's rule": lambda task, seed, budget: ParetoRule(task, seed, budget),
}
_WIDTH_RULES: Mapping[str, Callable[[RoutingTask, int], Rule]] = {
    "router": RouterRule,
    "glcb, components as they are": partial(PolicyRule, policy="glcb"),
    "linucb": partial(PolicyRule, policy="linucb"),
    "nearest neighbors": NearestNeighbors,
    "ParetoBandit's rule, 25 components": partial(ParetoRule, budget=None),
}


class ModelChange(NamedTuple):
    """What happens to a model in the middle of a run."""

    price: float = 1.0
    """Factor of its price."""
    announced: bool = False
    """Whether the router is told the new price."""
    worse: bool = False
    """Whether its answers become worse."""
    half_life: int | None = None
    """The half-life of the router."""


_CHANGES = {
    "price × 10, announced": ModelChange(price=10.0, announced=True),
    "price × 10, not announced": ModelChange(price=10.0),
    "worse answers": ModelChange(worse=True),
    "worse answers, half-life of 300": ModelChange(worse=True, half_life=300),
}


@register
@dataclass(frozen=True, kw_only=True)
class RoutingStudy(Study):
    """Compare the router with other rules on tables of prompts and models."""

    name: ClassVar[str] = "routing"
    question: ClassVar[str] = "What do learned routes between language models gain at a budget?"

    seeds: int = 10
    prompts: int = 5000
    """Number of prompts, at most; the tables have fewer."""
    widths: Sequence[int] = WIDTHS
    curve: Sequence[float] = CURVE

    @classmethod
    def quick(cls) -> Self:
        """Return a version with a few prompts."""
        return cls(seeds=2, prompts=120, widths=(25, 384), curve=BUDGETS)

    def run(self, context: StudyContext) -> StudyResult:
        """Measure all cells, order by order."""
        present, remarks = available_tasks(("routing-4", "routing-9"))
        measure = _Measurements(self, context)
        tables: list[Table] = []
        curves: dict[str, list[tuple[float, float]]] = {}
        if "routing-4" in present:
            task = Routing4()
            results = {
                (rule, budget): measure.all(f"budget {rule} {budget}", partial(self._budget, rule, budget))
                for rule in _BUDGET_RULES
                for budget in self.curve
            }
            tables += [_budget_table(results), self._parity_table(task, results)]
            changes = {name: measure.all(f"change {name}", partial(self._change, name)) for name in _CHANGES}
            tables.append(_change_table(changes))
            for rule in _BUDGET_RULES:
                curves[rule] = [
                    (float(np.mean(rows, axis=0)[1]), float(np.mean(rows, axis=0)[0]))
                    for (own, _), rows in results.items()
                    if own == rule
                ]
            curves["single models"] = _points(task.stream(0, self.prompts))
        if "routing-9" in present:
            widths = {
                (rule, width): measure.all(f"width {rule} {width}", partial(self._width, rule, width))
                for rule in _WIDTH_RULES
                for width in self.widths
            }
            tables += self._width_tables(widths)
        measure.finish()
        remark = (
            f"{self.seeds} orders of the same prompts, mean ± standard error. The gain is the quality above "
            "the hull of the single models at the same cost, times 1,000. Times are medians of CPU time."
        )
        return StudyResult(tables, [remark, *remarks], partial(_draw, curves))

    # ---- single runs ----------------------------------------------------------------------------

    def _budget(self, rule: str, budget: float, seed: int) -> list[float]:
        """Return quality, cost and gain."""
        task = Routing4()
        stream = task.stream(seed, self.prompts)
        chosen = play(_BUDGET_RULES[rule](task, seed, budget), stream).chosen
        result = evaluate_routes(chosen, stream.rewards, stream.costs)
        return [result.quality, result.cost, result.gain]

    def _width(self, rule: str, width: int, seed: int) -> list[float]:
        """Return the total reward, and the microseconds of a decision and an update."""
        task = Routing9(width)
        stream = task.stream(seed, self.prompts)
        played = play(_WIDTH_RULES[rule](task, seed), stream)
        total = stream.rewards[np.arange(stream.steps), played.chosen].sum()
        return [float(total), played.decide_us, played.learn_us]

    def _change(self, name: str, seed: int) -> list[float]:
        """Return the share of the changed model before, and the prompts until it has halved."""
        task, change = Routing4(), _CHANGES[name]
        stream = task.stream(seed, self.prompts)
        middle, model = stream.steps // 2, task.arms.index(CHANGED)
        rewards, costs = stream.rewards.copy(), stream.costs.copy()
        costs[middle:, model] *= change.price
        if change.worse:
            rewards[middle:, model] = rewards[middle:, task.arms.index(SUBSTITUTE)]
        rule = RouterRule(task, seed, budget=BUDGETS[1], half_life=change.half_life)
        price = rule.router.models[CHANGED].price
        announce = partial(rule.router.set_price, CHANGED, price * change.price)
        changed = replace(stream, rewards=rewards, costs=costs)
        chosen = play(rule, changed, {middle: announce} if change.announced else {}).chosen
        return list(prompts_until_halved(chosen, model, middle))

    # ---- tables ---------------------------------------------------------------------------------

    def _parity_table(
        self, task: RoutingTask, results: Mapping[tuple[str, float], list[list[float]]]
    ) -> Table:
        """Return the cost at the quality of the reference model."""
        table = Table(
            "rule", "cost, $", "share of its cost", "orders that reach it", title=f"Quality of {REFERENCE}"
        )
        stream = task.stream(0, self.prompts)
        column = task.arms.index(REFERENCE)
        quality, cost = stream.rewards[:, column].mean(), stream.costs[:, column].mean()
        table.add_row(REFERENCE, f"{cost:.5f}", "100%", "")
        for rule in _BUDGET_RULES:
            costs = []
            for seed in range(self.seeds):
                rows = [results[rule, budget][seed] for budget in self.curve]
                reached = Frontier.of_models([row[1] for row in rows], [row[0] for row in rows]).cost_of(
                    quality
                )
                if np.isfinite(reached):
                    costs.append(reached)
            shown = format_mean(costs, ".5f") if costs else "not reached"
            share = f"{np.mean(costs) / cost:.0%}" if costs else ""
            table.add_row(rule, shown, share, f"{len(costs)} of {self.seeds}")
        return table

    def _width_tables(self, results: Mapping[tuple[str, int], list[list[float]]]) -> list[Table]:
        stream = Routing9().stream(0, self.prompts)
        rewards, times = (
            Table("rule", *map(str, self.widths), title=title)
            for title in ("Reward by number of components", "Microseconds per decision and update")
        )
        singles = stream.rewards.sum(axis=0)
        for name, total in (
            ("best possible", stream.optimum),
            ("best single model", singles.max()),
            ("random", singles.mean()),
        ):
            rewards.add_row(name, *[f"{total:,.0f}"] * len(self.widths))
        for rule in _WIDTH_RULES:
            cells = [np.array(results[rule, width]) for width in self.widths]
            rewards.add_row(rule, *[format_mean(cell[:, 0].tolist(), ",.0f") for cell in cells])
            times.add_row(
                rule, *[f"{np.median(cell[:, 1]):,.0f} + {np.median(cell[:, 2]):,.0f}" for cell in cells]
            )
        return [rewards, times]


class _Measurements:
    """Measures every cell for every order, or takes it from the folder of the study."""

    def __init__(self, study: RoutingStudy, context: StudyContext) -> None:
        self._study, self._context, self._done = study, context, 0
        self._stored = StoredResults(context.folder)
        cells = len(_BUDGET_RULES) * len(study.curve) + len(_CHANGES) + len(_WIDTH_RULES) * len(study.widths)
        self._total = cells * study.seeds

    def all(self, key: str, measure: Callable[[int], list[float]]) -> list[list[float]]:
        """Return the measurements of one cell, one list per order."""
        rows = []
        for seed in range(self._study.seeds):
            self._context.progress(self._done, self._total)
            name = f"routing {VERSION} {self._study.prompts} {seed} {key}"
            rows.append(self._stored.get("glcb", name, partial(measure, seed)))
            self._done += 1
        return rows

    def finish(self) -> None:
        """Report that everything has been measured."""
        self._context.progress(self._total, self._total)


def prompts_until_halved(chosen: Sequence[int], model: int, change: int) -> tuple[float, float]:
    """Return the share of a model before a change, and the prompts until it has halved.

    The share is that of the last 25 prompts after the change, so the number is at least 25.

    Examples
    --------
    >>> prompts_until_halved([1] * 100 + [0] * 100, model=1, change=100)
    (1.0, 25.0)
    """
    hits = np.array(chosen) == model
    share = float(hits[max(change - 250, 0) : change].mean())
    after: Float64 = np.convolve(hits[change:], np.full(WINDOW, 1 / WINDOW), "valid")
    followed = np.flatnonzero(after <= share / 2)
    return share, float(followed[0] + WINDOW if followed.size else len(hits) - change)


def _budget_table(results: Mapping[tuple[str, float], list[list[float]]]) -> Table:
    table = Table(
        "rule",
        "budget, $",
        "quality",
        "cost / budget",
        "gain × 1,000",
        title="Quality at a budget, routing-4",
    )
    for (rule, budget), rows in results.items():
        quality, cost, gain = np.array(rows).T
        shares = (cost / budget).tolist()
        texts = (
            format_mean(quality.tolist(), ".4f"),
            format_mean(shares, ".3f"),
            format_mean((1000 * gain).tolist(), "+.1f"),
        )
        table.add_row(rule, f"{budget:g}", *texts)
    return table


def _change_table(changes: Mapping[str, list[list[float]]]) -> Table:
    table = Table(
        "change in the middle", "share before", "prompts until halved", title=f"The router follows: {CHANGED}"
    )
    for name, rows in changes.items():
        share, prompts = np.array(rows).T
        table.add_row(name, format_mean(share.tolist(), ".2f"), format_mean(prompts.tolist(), ".0f"))
    return table


def _points(stream: RoutingStream) -> list[tuple[float, float]]:
    frontier = Frontier.of_models(stream.costs.mean(axis=0), stream.rewards.mean(axis=0))
    return list(zip(frontier.costs.tolist(), frontier.qualities.tolist(), strict=True))


def _draw(curves: Mapping[str, list[tuple[float, float]]], path: Path) -> None:
    """Draw quality by cost."""
    with figure(path, width=6, height=4) as (panel,):
        for name, points in curves.items():
            costs, qualities = zip(*sorted(points), strict=True)
            panel.plot(costs, qualities, "o-", label=name)
        panel.set(xscale="log", xlabel="mean cost of a request, $", ylabel="mean quality")
        panel.legend(frameon=False)
