"""A homepage shows one of four stories on top; a click is 1, and 0 if the visitor leaves without."""

from random import Random

from glcb._api.requests import Settings
from glcb.service.demo.world import Context, World, chance


def _visitor(rng: Random) -> Context:
    return {
        "country": rng.choices(["FR", "DE", "IT", "PL"], [4, 3, 2, 1])[0],
        "device": rng.choices(["phone", "laptop", "tablet"], [6, 3, 1])[0],
        "age": rng.randint(16, 80),
        "hour": rng.randint(6, 23),
        "subscriber": rng.random() < 0.3,
    }


def _outcome(rng: Random, who: Context, arm: str, era: int) -> float:
    young, evening, phone = who["age"] < 35, who["hour"] >= 18, who["device"] == "phone"
    # In the second era a championship is on: sports wins in the evening, and games is played out.
    likes = {
        "sports": -2.5 + 2.0 * (who["country"] == "FR") + (3.5 if era else 0.5) * evening,
        "news": -2.0 + 2.8 * (who["age"] > 50) + 0.8 * who["subscriber"],
        "games": -2.8 + (0.5 if era else 3.8) * young + 0.6 * phone,
        "culture": -2.5 + 1.8 * who["subscriber"] + 1.5 * (who["country"] == "IT"),
    }
    return float(rng.random() < chance(likes.get(arm, -2.0)))


WORLD = World(
    name="homepage",
    settings=Settings(
        arms=["sports", "news", "games", "culture"], reward_timeout=60.0, half_life=1500, holdout=0.2, seed=1
    ),
    visitor=_visitor,
    outcome=_outcome,
    era=1100,
    delay=4.0,
    lost=0.08,
)
