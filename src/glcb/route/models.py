"""The models of a router, and its decisions."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from glcb import _validation
from glcb._errors import InvalidSettings


@dataclass(frozen=True, kw_only=True)
class Model:
    """A language model to route to.

    Parameters
    ----------
    price : float, default 1.0
        Dollars per unit of usage, such as per million tokens. The usage of a request is its cost divided by
        the price; it is predicted for each model and prompt. If only cost ratios are known, use the ratios.
    features : dict, default {}
        Features of the model besides its name, such as its size or provider. Models with similar features
        share what is learned. Do not include the price.

    Raises
    ------
    InvalidSettings
        If the price is not a positive number, or the features are not a dict.

    Examples
    --------
    >>> Model(price=0.2, features={"size": 7, "provider": "meta"}).price
    0.2
    """

    price: float = 1.0
    features: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "price", positive("price", self.price))
        if not isinstance(self.features, Mapping):
            raise InvalidSettings(f"the features of a model must be a dict, got {self.features!r}")


@dataclass(frozen=True, eq=False)
class Route:
    """The model chosen for a prompt.

    Attributes
    ----------
    model : str
        The chosen model.
    id : str
        Identifies the decision when its cost and its quality are known.
    propensity : float
        The probability with which this model was chosen.
    probabilities : dict
        The probability of each model; 0 for models that were not eligible.
    values : dict
        The expected quality of each model.
    costs : dict
        The expected cost of each model, in dollars. Before any cost is known, these are the prices.
    penalty : float
        The quality that a normalized cost of 1 had to outweigh.
    is_fallback : bool
        Whether the prompt was routed without its features, because its embedding was late or failed.
    """

    model: str
    id: str
    propensity: float
    probabilities: dict[str, float]
    values: dict[str, float]
    costs: dict[str, float]
    penalty: float
    is_fallback: bool = False


def positive(name: str, value: object) -> float:
    """Return a positive number; raise InvalidSettings if it is not one."""
    number = float(_validation.number(name, value, 0.0, 1e12))
    if not number > 0 or not math.isfinite(number):
        raise InvalidSettings(f"{name} must be a positive number, got {value!r}")
    return number
