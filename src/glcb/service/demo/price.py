"""A shop finds out which of four prices to ask whom; the reward is what was earned, in euros."""

from random import Random

from glcb._api.requests import Settings
from glcb.service.demo.world import Context, World, chance

_PRICES = {"9 €": 9.0, "12 €": 12.0, "15 €": 15.0, "19 €": 19.0}
_ANOTHER = 10.0
"""What is asked if somebody adds a price that is none of these."""


def _visitor(rng: Random) -> Context:
    return {
        "team size": min(200, 1 + int(rng.lognormvariate(1.5, 1.0))),
        "from": rng.choices(["search", "newsletter", "a friend", "an advert"], [5, 2, 2, 3])[0],
        "country": rng.choice(["DE", "FR", "NL", "ES"]),
        "visits before": min(9, int(rng.expovariate(0.7))),
    }


def _outcome(rng: Random, who: Context, arm: str, era: int) -> float:
    price = _PRICES.get(arm, _ANOTHER)
    large = who["team size"] > 5
    # In the second era large teams have to save money.
    worth = (14.0 if era else 23.0) if large else 10.0
    worth += 2.0 * (who["from"] == "a friend") + 0.4 * who["visits before"]
    buys = rng.random() < chance(worth - price)
    return price if buys else 0.0


WORLD = World(
    name="price-test",
    settings=Settings(
        arms=list(_PRICES),
        rewards=(0.0, 19.0),
        reward_timeout=120.0,
        default_reward=0.0,
        half_life=1500,
        holdout=0.2,
        seed=2,
    ),
    visitor=_visitor,
    outcome=_outcome,
    era=900,
    delay=8.0,
    lost=0.02,
)
