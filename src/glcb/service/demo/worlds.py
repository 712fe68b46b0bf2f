"""The simulated worlds of the demo: their experiments, their visitors, and the rewards they give."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

from glcb._api.requests import ExperimentSettings

Context = dict[str, Any]


@dataclass(frozen=True)
class World:
    """An experiment and its simulated visitors.

    Parameters
    ----------
    name
        The name of the experiment.
    settings
        Its settings.
    visitor
        Draws the context of a visitor.
    reward
        Draws the reward for a context, an arm and an era. It also accepts arms that were added later.
    era
        Number of visitors after which preferences change, from era 0 to era 1 and back.
    delay
        Mean time until the reward arrives, in seconds.
    lost
        Share of rewards that never arrive.
    """

    name: str
    settings: ExperimentSettings
    visitor: Callable[[Random], Context]
    reward: Callable[[Random, Context, str, int], float]
    era: int
    delay: float
    lost: float

    def era_of(self, visitor: int) -> int:
        """Return the era of a visitor, 0 or 1."""
        return visitor // self.era % 2


def sigmoid(logit: float) -> float:
    """Return the logistic function of a logit.

    >>> sigmoid(0), round(sigmoid(2), 2)
    (0.5, 0.88)
    """
    return 1 / (1 + math.exp(-logit))


# ---- homepage: which story goes on top? The reward is 1 for a click -----------------------------


def _homepage_visitor(rng: Random) -> Context:
    return {
        "country": rng.choices(["FR", "DE", "IT", "PL"], [4, 3, 2, 1])[0],
        "device": rng.choices(["phone", "laptop", "tablet"], [6, 3, 1])[0],
        "age": rng.randint(16, 80),
        "hour": rng.randint(6, 23),
        "subscriber": rng.random() < 0.3,
    }


def _click(rng: Random, visitor: Context, arm: str, era: int) -> float:
    young, evening, phone = visitor["age"] < 35, visitor["hour"] >= 18, visitor["device"] == "phone"
    # Era 1 is a championship: sports wins in the evening, and games lose their appeal.
    logits = {
        "sports": -2.5 + 2.0 * (visitor["country"] == "FR") + (3.5 if era else 0.5) * evening,
        "news": -2.0 + 2.8 * (visitor["age"] > 50) + 0.8 * visitor["subscriber"],
        "games": -2.8 + (0.5 if era else 3.8) * young + 0.6 * phone,
        "culture": -2.5 + 1.8 * visitor["subscriber"] + 1.5 * (visitor["country"] == "IT"),
    }
    return float(rng.random() < sigmoid(logits.get(arm, -2.0)))


HOMEPAGE = World(
    name="homepage",
    settings=ExperimentSettings(
        arms=["sports", "news", "games", "culture"],
        reward_timeout=60.0,
        half_life=1500,
        holdout=0.2,
        seed=1,
        description="Which story goes on top of the home page?",
        owner="Newsroom",
        reward_unit="clicks",
    ),
    visitor=_homepage_visitor,
    reward=_click,
    era=1100,
    delay=4.0,
    lost=0.08,
)


# ---- price test: which price to offer to which visitor? The reward is the revenue in euros ---------------

_PRICES = {"9 €": 9.0, "12 €": 12.0, "15 €": 15.0, "19 €": 19.0}
_OTHER_PRICE = 10.0
"""The price of an arm that was added later."""


def _shop_visitor(rng: Random) -> Context:
    return {
        "team size": min(200, 1 + int(rng.lognormvariate(1.5, 1.0))),
        "source": rng.choices(["search", "newsletter", "referral", "ad"], [5, 2, 2, 3])[0],
        "country": rng.choice(["DE", "FR", "NL", "ES"]),
        "previous visits": min(9, int(rng.expovariate(0.7))),
    }


def _revenue(rng: Random, visitor: Context, arm: str, era: int) -> float:
    price = _PRICES.get(arm, _OTHER_PRICE)
    large = visitor["team size"] > 5
    # In era 1, large teams have smaller budgets.
    budget = (14.0 if era else 23.0) if large else 10.0
    budget += 2.0 * (visitor["source"] == "referral") + 0.4 * visitor["previous visits"]
    buys = rng.random() < sigmoid(budget - price)
    return price if buys else 0.0


PRICE_TEST = World(
    name="price-test",
    settings=ExperimentSettings(
        arms=list(_PRICES),
        rewards=(0.0, 19.0),
        reward_timeout=120.0,
        default_reward=0.0,
        half_life=1500,
        holdout=0.2,
        seed=2,
        description="Which price to offer to which visitor?",
        owner="Pricing",
        reward_unit="€",
    ),
    visitor=_shop_visitor,
    reward=_revenue,
    era=900,
    delay=8.0,
    lost=0.02,
)


# ---- model router: which language model? The reward is the answer's quality minus its cost ------

_SKILL = {"small": 0.3, "medium": 0.5, "large": 0.95}
"""Difficulty up to which a model answers well."""
_COST = {"small": 0.02, "medium": 0.1, "large": 0.5}
"""Cost of a prompt of 500 words, in units of quality."""


def _prompt(rng: Random) -> Context:
    kind = rng.choices(["chat", "summary", "code", "math"], [3, 3, 3, 3])[0]
    return {
        "kind": kind,
        "words": min(2000, 5 + int(rng.lognormvariate(5 if kind == "summary" else 3.5, 1.0))),
        "language": rng.choices(["en", "de", "ja"], [6, 2, 1])[0],
        "step by step": rng.random() < (0.6 if kind == "math" else 0.15),
    }


def _net_quality(rng: Random, prompt: Context, arm: str, era: int) -> float:
    skill, cost = _SKILL.get(arm, 0.5), _COST.get(arm, 0.1)
    difficulty = {"chat": 0.2, "summary": 0.4, "code": 0.75, "math": 0.8}[prompt["kind"]]
    difficulty += 0.15 * prompt["step by step"] + 0.1 * (prompt["language"] == "ja")
    if era and arm == "medium" and prompt["kind"] == "code":  # a new version that is better at code
        skill += 0.4
    quality = 0.95 - 2 * max(0.0, difficulty - skill) + rng.gauss(0, 0.05)
    cost *= 0.5 + prompt["words"] / 1000
    return float(min(1.0, max(0.0, quality - cost)))


MODEL_ROUTER = World(
    name="model-router",
    settings=ExperimentSettings(
        arms=list(_SKILL),
        rewards=(0.0, 1.0),
        reward_timeout=60.0,
        half_life=1500,
        holdout=0.2,
        seed=3,
        description="Which language model answers a prompt best, after its cost?",
        owner="Platform",
        reward_unit="points of quality",
    ),
    visitor=_prompt,
    reward=_net_quality,
    era=800,
    delay=2.0,
    lost=0.01,
)

WORLDS = [HOMEPAGE, PRICE_TEST, MODEL_ROUTER]
