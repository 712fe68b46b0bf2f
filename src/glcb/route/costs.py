"""The cost of requests: predicted usage of each model, and the pacing of a budget."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from glcb._arrays import Arrays, Float64, copy_into, take_rows
from glcb._prompts import PROMPT_COUNTS

INPUTS = 1 + len(PROMPT_COUNTS)
"""Number of inputs of the prediction: a constant and the prompt counts."""
_SCALE = 0.25
"""Scales the counts, which are logarithms, to about 1."""
_DECAY = 0.98
"""Weight of earlier observations in the level correction of the predictions."""
_PRIOR = 100.0
"""The prior variance of a weight, in units of the variance of log usage."""
_MIN_USAGE = 1e-12
"""Lower bound on usage, so that its logarithm is finite."""


def usage_inputs(context: Mapping[Any, Any]) -> Float64:
    """Return the inputs of the prediction: a constant and the prompt counts, 0 if there are none."""
    inputs: Float64 = np.zeros(INPUTS)
    inputs[0] = 1
    for position, name in enumerate(PROMPT_COUNTS, start=1):
        value = context.get(name)
        if isinstance(value, int | float) and math.isfinite(value):
            inputs[position] = _SCALE * value
    return inputs


class Usage:
    """Predicts how much each model uses for a prompt: tokens, requests or seconds.

    Each model has a linear regression of log usage on the prompt counts (ridge, λ = 0.01). The level of its
    predictions is corrected by the ratio of recently observed to predicted usage. A model without
    observations is assumed to use the average of the other models.

    Parameters
    ----------
    models
        Number of models.
    """

    def __init__(self, models: int) -> None:
        self._weights: Float64 = np.zeros((models, INPUTS))
        self._inverses: Float64 = np.tile(_PRIOR * np.eye(INPUTS), (models, 1, 1))
        self._levels: Float64 = np.zeros((models, 2))
        """The sums of observed and of predicted usage."""

    @property
    def is_known(self) -> bool:
        """Whether anything has been observed."""
        return bool(self._levels[:, 0].any())

    def predict(self, inputs: Float64) -> Float64:
        """Return the expected usage of each model; 1 before anything has been observed."""
        known = self._levels[:, 0] > 0
        if not self.is_known:
            return np.ones(len(known))
        usage: Float64 = np.exp(self._weights @ inputs)
        usage[known] *= self._levels[known, 0] / self._levels[known, 1]
        usage[~known] = np.exp(np.log(usage[known]).mean())
        return usage

    def learn(self, model: int, inputs: Float64, usage: float) -> None:
        """Learn the usage of a prompt by the model at an index."""
        usage = max(usage, _MIN_USAGE)
        inverse = self._inverses[model]
        direction = inverse @ inputs
        gain = direction / (1 + inputs @ direction)
        error = math.log(usage) - self._weights[model] @ inputs
        self._inverses[model] = inverse - np.outer(gain, direction)
        self._weights[model] += gain * error
        self._levels[model] *= _DECAY
        self._levels[model] += usage, math.exp(self._weights[model] @ inputs)

    def reorder(self, sources: Sequence[int]) -> None:
        """Keep the models at these indices, in this order; −1 stands for a new model."""
        rows = np.array(sources, np.int64)
        self._weights = take_rows(self._weights, rows, 0.0)
        self._inverses = take_rows(self._inverses, rows, _PRIOR * np.eye(INPUTS))
        self._levels = take_rows(self._levels, rows, 0.0)

    def snapshot(self) -> Arrays:
        """Return everything that was learned."""
        return {"weights": self._weights, "inverses": self._inverses, "levels": self._levels}

    def restore(self, arrays: Arrays) -> None:
        """Restore a snapshot; raise ValueError or KeyError if it is invalid."""
        copy_into(self.snapshot(), arrays)


class BudgetPacer:
    """Adjusts the penalty on costs so that the mean cost of a request approaches a budget.

    After a request of cost c, the penalty is λ ← clip(λ + η (c / B − 1), 0, λ_max), the dual update of
    Agrawal and Devanur (2016) in units of the budget B.

    Parameters
    ----------
    budget
        The target for the mean cost of a request.
    rate
        The step size η.
    max_penalty
        The largest penalty λ_max.

    Examples
    --------
    >>> pacer = BudgetPacer(budget=0.01, rate=0.1, max_penalty=5)
    >>> pacer.charge(0.03)
    >>> round(pacer.penalty, 3)
    0.2
    """

    def __init__(self, budget: float, rate: float, max_penalty: float) -> None:
        self.budget = budget
        self.rate = rate
        self.max_penalty = max_penalty
        self.penalty = 0.0

    def charge(self, cost: float, expected: float | None = None) -> None:
        """Charge a request, or its difference from the expected cost charged earlier."""
        difference = cost - (self.budget if expected is None else expected)
        changed = self.penalty + self.rate * difference / self.budget
        self.penalty = min(max(changed, 0.0), self.max_penalty)
