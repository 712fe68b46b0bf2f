"""Random contexts, some of them malformed, for soak tests."""

import math
from typing import Any

import numpy as np

ODD_VALUES: tuple[Any, ...] = (
    None,
    math.nan,
    math.inf,
    -math.inf,
    10**400,
    1e299,
    "text",
    True,
    [1],
    {"a": 1},
    -0.0,
)


def random_context(rng: np.random.Generator) -> dict[str, Any]:
    """Draw a context; one in ten has an odd value."""
    context: dict[str, Any] = {
        "age": int(rng.integers(18, 90)),
        "spent": float(rng.lognormal(3, 1)),
        "country": f"c{int(rng.zipf(1.6))}",
        "member": bool(rng.integers(2)),
    }
    if rng.random() < 0.1:
        context[("age", "spent", "country", "member", f"key {rng.integers(10**6)}")[rng.integers(5)]] = (
            ODD_VALUES[rng.integers(len(ODD_VALUES))]
        )
    if rng.random() < 0.05:
        del context["spent"]
    return context
