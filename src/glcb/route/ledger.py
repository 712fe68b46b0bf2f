"""The accounts of a router: prices, expected and actual costs, limits, penalties, and counts."""

import math
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from glcb import _validation
from glcb._arrays import Arrays, Float64, check_values, take_rows
from glcb._errors import InvalidInput, InvalidSettings, UnknownArm, UnknownDecision
from glcb.route.costs import INPUTS, BudgetPacer, Usage
from glcb.route.models import Model, positive

_REQUESTS, _REWARDS, _QUALITY, _COST = range(4)
"""The counter columns of a model."""


MAX_TRIALS = 10_000
AFFORDABLE = 2.0
"""A model is tried first if its cost is at most this many times the budget."""
_SMALLEST = 1e-300
"""Lower bound on the unit, which avoids division by 0 if all costs are 0."""


@dataclass(slots=True)
class PendingRoute:
    """A decision whose cost, latency or quality can still be reported."""

    model: str
    inputs: Float64
    """The inputs of the predictions of usage and latency."""
    price: float
    """The price of the model when it was chosen."""
    expected: float | None
    """The expected cost that was charged; None if no cost was known yet."""
    is_fallback: bool
    has_cost: bool = False
    has_latency: bool = False


@dataclass(frozen=True, eq=False)
class Quote:
    """The expected costs of a request, by model."""

    inputs: Float64
    costs: Float64
    """Dollars. Before any cost is known, these are the prices."""
    has_costs: bool
    """Whether any cost is known."""
    seconds: Float64
    has_seconds: bool
    """Whether any latency is known."""
    cost_terms: Float64
    """Penalties subtracted from the scores for costs."""
    latency_terms: Float64
    """Penalties subtracted from the scores for latencies."""


class Ledger:
    """Predicts, limits, charges and counts the costs of a router.

    Parameters
    ----------
    models
        The models by name.
    budget
        The target for the mean cost of a request; None means no limit.
    cost_penalty, latency_penalty
        Quality that a normalized cost of 1, or a second of latency, must be worth.
    max_cost, max_latency
        Limits of expected cost and latency; None means no limit.
    pacing_rate, max_penalty
        Arguments of the pacer.
    trials
        Number of initial requests for every affordable model.
    quality_range
        Difference between the largest and the smallest quality.
    max_pending
        Number of decisions whose costs can be reported later.
    """

    def __init__(
        self,
        models: Mapping[str, Model],
        budget: float | None,
        cost_penalty: float,
        latency_penalty: float,
        max_cost: float | None,
        max_latency: float | None,
        pacing_rate: float,
        max_penalty: float,
        trials: int,
        quality_range: float,
        max_pending: int,
    ) -> None:
        self.models = dict(models)
        self.cost_penalty = _validation.number("cost_penalty", cost_penalty, 0.0)
        self.latency_penalty = _validation.number("latency_penalty", latency_penalty, 0.0)
        self.max_cost = None if max_cost is None else positive("max_cost", max_cost)
        self.max_latency = None if max_latency is None else positive("max_latency", max_latency)
        self.pacing_rate = positive("pacing_rate", pacing_rate)
        self.max_penalty = positive("max_penalty", max_penalty)
        self.trials = _validation.integer("trials", trials, 0, MAX_TRIALS)
        self._quality_range = quality_range
        self.pacer = None if budget is None else self._make_pacer(budget)
        self.pending: OrderedDict[str, PendingRoute] = OrderedDict()
        self._max_pending = max_pending
        self._usage, self._latency = Usage(len(models)), Usage(len(models))
        self._counters: Float64 = np.zeros((len(models), 4))
        self._requests = 0
        self._spend = self._largest = 0.0

    def _make_pacer(self, budget: float) -> BudgetPacer:
        return BudgetPacer(positive("budget", budget), self.pacing_rate, self.max_penalty)

    # ---- before a decision ----------------------------------------------------------------------

    @property
    def penalty(self) -> float:
        """The penalty on a normalized cost of 1."""
        return self.cost_penalty + (0.0 if self.pacer is None else self.pacer.penalty)

    def set_budget(self, budget: float | None) -> None:
        """Change the budget."""
        if budget is None:
            self.pacer = None
        elif self.pacer is None:
            self.pacer = self._make_pacer(budget)
        else:
            self.pacer.budget = positive("budget", budget)

    def quote(self, inputs: Float64, known: Mapping[str, float] | None = None) -> Quote:
        """Return the expected costs of a request, by model; `known` are known costs."""
        prices = [model.price for model in self.models.values()]
        costs: Float64 = self._usage.predict(inputs) * prices
        for name, cost in (known or {}).items():
            costs[self.index(name)] = _amount("the cost", cost)
        seconds = self._latency.predict(inputs)
        has_costs, has_seconds = self._usage.is_known or bool(known), self._latency.is_known
        unit = float(costs.max()) if self.pacer is None or not has_costs else self.pacer.budget
        cost_terms: Float64 = -self.penalty * costs / max(unit, _SMALLEST)
        return Quote(
            inputs, costs, has_costs, seconds, has_seconds, cost_terms, -self.latency_penalty * seconds
        )

    def allowed(
        self, quote: Quote, eligible: Iterable[str] | None, max_cost: float | None, max_latency: float | None
    ) -> list[str]:
        """Return the models within the limits, or the cheapest if there is none.

        Limits apply once anything is known about costs, or about latencies.
        """
        listed = list(self.models) if eligible is None else list(eligible)
        if not listed:
            raise UnknownArm("eligible must have at least one model, got none; omit it to allow all models")
        indices = [self.index(name) for name in listed]
        cost_limit = self.max_cost if max_cost is None else positive("max_cost", max_cost)
        time_limit = self.max_latency if max_latency is None else positive("max_latency", max_latency)
        within = [
            index
            for index in indices
            if (cost_limit is None or not quote.has_costs or quote.costs[index] <= cost_limit)
            and (time_limit is None or not quote.has_seconds or quote.seconds[index] <= time_limit)
        ]
        names = list(self.models)
        cheapest = min(indices, key=lambda index: float(quote.costs[index]))
        return [names[index] for index in within or [cheapest]]

    def worthwhile(self, quote: Quote, names: list[str]) -> list[str]:
        """Return the models to choose from: one that is due for a trial, or all that could be the best.

        A cost penalty can exceed any quality. Such a model is not explored either: a few requests to a model
        of thirty times the budget would cost more than exploring it is worth.
        """
        indices = [self.index(name) for name in names]
        limit = math.inf if self.pacer is None else AFFORDABLE * self.pacer.budget
        untried = [
            (self._counters[index, _REQUESTS], quote.costs[index], name)
            for index, name in zip(indices, names, strict=True)
            if self._counters[index, _REQUESTS] < self.trials and quote.costs[index] <= limit
        ]
        if untried:
            return [min(untried)[-1]]
        terms = (quote.cost_terms + quote.latency_terms)[indices]
        least = terms.max() - self._quality_range
        return [name for name, term in zip(names, terms.tolist(), strict=True) if term >= least]

    def index(self, name: object) -> int:
        """Return the index of a model; raise UnknownArm if there is no such model."""
        for index, known in enumerate(self.models):
            if known == name:
                return index
        raise UnknownArm(f"there is no model {name!r}; the models are {', '.join(map(repr, self.models))}")

    # ---- after a decision -----------------------------------------------------------------------

    def charge(self, route: str, model: str, quote: Quote, is_fallback: bool) -> None:
        """Charge the expected cost of a decision, if anything is known about costs."""
        index = self.index(model)
        expected = float(quote.costs[index]) if quote.has_costs else None
        if expected is not None:
            if self.pacer is not None:
                self.pacer.charge(expected)
            self._spend += expected
            self._largest += float(quote.costs.max())
            self._counters[index, _COST] += expected
        self._requests += 1
        self._counters[index, _REQUESTS] += 1
        price = self.models[model].price
        self.pending[route] = PendingRoute(model, quote.inputs, price, expected, is_fallback)
        while len(self.pending) > self._max_pending:
            self.pending.popitem(last=False)

    def complete(self, route: str, cost: float | None, latency: float | None) -> None:
        """Record the actual cost and latency of a decision."""
        check_amounts(cost, latency)
        pending = self.pending.get(route)
        if pending is None:
            raise UnknownDecision(f"there is no decision {route!r}, or it is too old")
        if (cost is not None and pending.has_cost) or (latency is not None and pending.has_latency):
            raise InvalidInput(f"the cost or latency of the decision {route!r} has been reported before")
        index = self.index(pending.model) if pending.model in self.models else None
        if cost is not None:
            pending.has_cost = True
            if self.pacer is not None:
                self.pacer.charge(cost, pending.expected)
            difference = cost - (pending.expected or 0.0)
            self._spend += difference
            if index is not None:
                self._usage.learn(index, pending.inputs, cost / pending.price)
                self._counters[index, _COST] += difference
        if latency is not None:
            pending.has_latency = True
            if index is not None:
                self._latency.learn(index, pending.inputs, latency)

    def count_reward(self, model: str, quality: float) -> None:
        """Count the quality of an answer."""
        self._counters[self.index(model), _REWARDS : _QUALITY + 1] += 1, quality

    @property
    def summary(self) -> dict[str, Any]:
        """Requests, spend, mean cost, penalty, savings, and requests, quality and cost by model."""
        models = {
            name: {
                "requests": int(row[_REQUESTS]),
                "quality": _ratio(row[_QUALITY], row[_REWARDS]),
                "mean_cost": _ratio(row[_COST], row[_REQUESTS]),
            }
            for name, row in zip(self.models, self._counters.tolist(), strict=True)
        }
        return {
            "requests": self._requests,
            "spend": self._spend,
            "mean_cost": _ratio(self._spend, self._requests),
            "penalty": self.penalty,
            "savings": 1 - _ratio(self._spend, self._largest),
            "models": models,
        }

    # ---- models ---------------------------------------------------------------------------------

    def add(self, name: str, model: Model) -> None:
        """Add a model."""
        self._reorder([*range(len(self.models)), -1])
        self.models[name] = model

    def remove(self, name: str) -> None:
        """Remove a model."""
        index = self.index(name)
        self._reorder([row for row in range(len(self.models)) if row != index])
        del self.models[name]

    def _reorder(self, sources: list[int]) -> None:
        for usage in (self._usage, self._latency):
            usage.reorder(sources)
        self._counters = take_rows(self._counters, np.array(sources), 0.0)

    # ---- saving ---------------------------------------------------------------------------------

    def snapshot(self) -> tuple[dict[str, Any], Arrays]:
        """Return everything that changes, as JSON-serializable metadata and arrays."""
        metadata = {
            "penalty": 0.0 if self.pacer is None else self.pacer.penalty,
            "totals": [self._requests, self._spend, self._largest],
            "pending": [
                [route, p.model, p.price, p.expected, p.is_fallback, p.has_cost, p.has_latency]
                for route, p in self.pending.items()
            ],
        }
        inputs = np.array([p.inputs for p in self.pending.values()], np.float64).reshape(-1, INPUTS)
        arrays = {"counters": self._counters, "inputs": inputs}
        for part, usage in (("usage", self._usage), ("latency", self._latency)):
            arrays |= {f"{part}.{name}": array for name, array in usage.snapshot().items()}
        return metadata, arrays

    def restore(self, metadata: dict[str, Any], arrays: Arrays) -> None:
        """Restore a snapshot; raise ValueError, TypeError or KeyError if it is invalid."""
        for part, usage in (("usage", self._usage), ("latency", self._latency)):
            usage.restore({name: arrays[f"{part}.{name}"] for name in usage.snapshot()})
        self._counters[...] = check_values("counters", arrays["counters"])
        self._requests, self._spend, self._largest = metadata["totals"]
        if self.pacer is not None:
            self.pacer.penalty = float(metadata["penalty"])
        rows = check_values("inputs", arrays["inputs"])
        for (route, *values), inputs in zip(metadata["pending"], rows, strict=True):
            model, price, expected, *flags = values
            self.pending[route] = PendingRoute(model, inputs.copy(), price, expected, *flags)


def _ratio(amount: float, count: float) -> float:
    return amount / count if count else math.nan


def check_amounts(cost: float | None, latency: float | None) -> None:
    """Raise InvalidInput if a cost or a latency is negative or not a number."""
    for what, amount in (("the cost", cost), ("the latency", latency)):
        if amount is not None:
            _amount(what, amount)


def _amount(what: str, value: object) -> float:
    """Return a cost or a latency; raise InvalidInput if it is negative or not a number."""
    try:
        return _validation.number(what, value, 0.0, 1e12)
    except InvalidSettings as error:
        raise InvalidInput(str(error)) from None
