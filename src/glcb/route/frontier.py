"""Quality and cost on a table of known results: the single-model frontier, regret and savings."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from glcb._arrays import Float64
from glcb._errors import InvalidInput


@dataclass(frozen=True, eq=False)
class Frontier:
    """The best mean quality at a mean cost of single models, or of random mixtures of two models.

    It is the upper concave hull of the models' points.

    Attributes
    ----------
    costs, qualities : ndarray of float64
        The corners, by increasing cost.

    Examples
    --------
    >>> frontier = Frontier.of_models([1.0, 2.0, 4.0], [0.5, 0.6, 0.9])
    >>> frontier.costs.tolist(), round(float(frontier.quality_at(2.5)), 3)
    ([1.0, 4.0], 0.7)
    """

    costs: Float64
    qualities: Float64

    @classmethod
    def of_models(cls, costs: Sequence[float] | Float64, qualities: Sequence[float] | Float64) -> "Frontier":
        """Return the frontier for models with these mean costs and qualities."""
        corners: list[tuple[float, float]] = []
        for cost, quality in sorted(zip(map(float, costs), map(float, qualities), strict=True)):
            if corners and quality <= corners[-1][1]:
                continue
            while len(corners) > 1 and _is_below(corners[-2], corners[-1], (cost, quality)):
                corners.pop()
            if corners and corners[-1][0] == cost:
                corners.pop()
            corners.append((cost, quality))
        return cls(np.array([c for c, _ in corners]), np.array([q for _, q in corners]))

    def quality_at(self, cost: float) -> float:
        """Return the quality at a mean cost; below the cheapest model, its quality."""
        return float(np.interp(cost, self.costs, self.qualities))

    def cost_of(self, quality: float) -> float:
        """Return the mean cost of a quality; infinite if no model has it."""
        if quality > self.qualities[-1]:
            return float("inf")
        return float(np.interp(quality, self.qualities, self.costs))


def _is_below(left: tuple[float, float], point: tuple[float, float], right: tuple[float, float]) -> bool:
    """Return whether a point is on or below the line between two others."""
    slope = (right[1] - left[1]) / (right[0] - left[0])
    return point[1] <= left[1] + slope * (point[0] - left[0])


@dataclass(frozen=True)
class RoutingResult:
    """The results of a sequence of choices on a table of known outcomes.

    Attributes
    ----------
    quality, cost : float
        Mean quality and mean cost of the chosen models.
    gain : float
        Quality above the frontier of the single models at the same cost.
    regret_single : float
        Mean quality of the best single model, minus the mean quality of the choices.
    regret_oracle : float
        Mean quality of the best model of every prompt, minus the mean quality of the choices.
    savings : float
        Saved share of the cost of the most expensive model.
    """

    quality: float
    cost: float
    gain: float
    regret_single: float
    regret_oracle: float
    savings: float


def evaluate_routes(chosen: Sequence[int] | np.ndarray, qualities: Float64, costs: Float64) -> RoutingResult:
    """Return the quality, cost, regret and savings of choices.

    Parameters
    ----------
    chosen : sequence of int
        The column of the chosen model for each prompt.
    qualities, costs : ndarray of float64, shape (prompts, models)
        The quality and cost of every model for every prompt.

    Returns
    -------
    RoutingResult
        The result.

    Raises
    ------
    InvalidInput
        If the shapes do not match.

    Examples
    --------
    >>> table = np.array([[0.0, 1.0], [1.0, 1.0]])
    >>> result = evaluate_routes([1, 0], table, np.array([[1.0, 3.0], [1.0, 3.0]]))
    >>> result.quality, result.cost, round(result.gain, 3), round(result.savings, 3)
    (1.0, 2.0, 0.25, 0.333)
    """
    columns = np.asarray(chosen, np.int64)
    if qualities.shape != costs.shape or qualities.shape[:1] != columns.shape or not columns.size:
        raise InvalidInput(
            f"there must be one choice per prompt: got {columns.shape} choices, qualities of shape "
            f"{qualities.shape} and costs of shape {costs.shape}"
        )
    rows = np.arange(columns.size)
    quality, cost = float(qualities[rows, columns].mean()), float(costs[rows, columns].mean())
    mean_qualities, mean_costs = qualities.mean(axis=0), costs.mean(axis=0)
    frontier = Frontier.of_models(mean_costs, mean_qualities)
    return RoutingResult(
        quality,
        cost,
        quality - frontier.quality_at(cost),
        float(mean_qualities.max()) - quality,
        float(qualities.max(axis=1).mean()) - quality,
        1 - cost / float(mean_costs.max()),
    )
