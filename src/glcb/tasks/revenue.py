"""Revenue: rewards that are mostly 0, with a heavy tail, and reported late or not at all."""

import datetime
import itertools
import math
from typing import Any, ClassVar

import numpy as np

from glcb._arrays import Bool, Float32, Float64
from glcb._types import Rewards
from glcb.tasks.base import Stream, stream_generators
from glcb.tasks.registry import register
from glcb.tasks.scenarios import ClickScenario, available_between, zipf

LARGEST_ORDER = 200.0
PRICES = (22.0, 55.0)
"""The cheapest and the most expensive offer."""
SPREAD = 0.8
"""Standard deviation of the logarithm of an amount."""
LARGE, TIMES = 0.01, 8.0
"""Share of large orders, and their factor."""
LOST = 0.1
"""Share of the orders that are never reported."""


MAILS_WIDTH = 56
"""Number of features of an encoded customer."""
REPORTED = 0.9
"""Decisions are learned at the age at which this share of the orders has arrived, as in ``Bandit``."""


def label_age(mean_delay: float) -> int:
    """Return the age, in decisions, at which decisions are learned if delays are exponential."""
    return round(-mean_delay * math.log(1 - REPORTED))


def draw_orders(rates: Float64, largest: float, rng: np.random.Generator) -> tuple[Float64, Float64]:
    """Return the amounts paid, and the amounts reported before the decision is learned."""
    prices = rng.permutation(np.linspace(*PRICES, rates.shape[1]))
    amounts = prices * np.exp(SPREAD * rng.normal(size=rates.shape))
    amounts *= np.where(rng.random(rates.shape) < LARGE, TIMES, 1.0)
    paid = np.where(rng.random(rates.shape) < rates, amounts.clip(max=largest).round(2), 0.0)
    return paid, np.where(rng.random(rates.shape) < REPORTED * (1 - LOST), paid, 0.0)


class Revenue(ClickScenario):
    """The visitors and arms of the click scenarios, whose clicks are orders of different amounts.

    The amounts are 22 to 55 €, depending on the arm, times a log-normal factor (σ 0.8); 1% of them are eight
    times as large. Orders are reported after 100 further decisions on average, and 10% of them never. Halfway
    through, two arms exchange their rates of orders.
    """

    largest: ClassVar[float] = LARGEST_ORDER
    """Larger amounts are clipped to this amount."""
    mean_delay: ClassVar[int] = 100

    def stream(self, seed: int, steps: int | None = None) -> Stream:
        """Return the stream of ``seed``; by default it has the scenario's own length."""
        length = self.steps if steps is None else steps
        context_rng, score_rng, order_rng = stream_generators(seed, length, 3)
        contexts, rates = self._world(length, context_rng, score_rng)
        later = rates[length // 2 :]
        later[:, [1, 2]] = later[:, [2, 1]]
        paid, reported = draw_orders(rates, self.largest, order_rng)
        delays = np.full(length, label_age(self.mean_delay))
        return Stream(contexts, paid, self._available(length), delays, reported=reported)


def _register_revenue(percent: int, high: int) -> None:
    text = f"""Orders of about {percent}% of the visitors, with amounts declared as 0 to {high:,} €."""
    contents = {
        "__doc__": text,
        "__module__": __name__,
        "name": f"revenue-{percent}-{high}",
        "rate": percent / 100,
        "rewards": (0.0, float(high)),
        "largest": min(float(high), LARGEST_ORDER),
    }
    register(type(f"Revenue{percent}Of{high}", (Revenue,), contents))


for _percent, _high in itertools.product((2, 5, 20), (60, 200, 2000)):
    _register_revenue(_percent, _high)


@register
class Mails:
    """Promotional mails: one of six or seven offers for each of 30,000 customers, given their attributes.

    The customers are dicts with the defects of real data, and contexts are their encodings by ``Bandit``.
    There are 500 cities by Zipf's law, 300 of which appear after the middle; a quarter of the ages is
    missing, and some are texts or NaN; one feature appears late. The order rates are 1 to 16% and depend on
    two or three features of the customer, which differ between offers. The amounts are as in the other
    revenue tasks. Orders are reported after 300 further decisions on average, and 10% of them never. A
    seventh offer is added after 40% of the run, and the first one is removed after two thirds. Halfway
    through, two offers lose most of their orders, and one finds another audience.
    """

    name = "mails"
    arms: tuple[str, ...] = ("coffee", "tea", "books", "garden", "toys", "sports", "travel")
    rewards: Rewards = (0.0, LARGEST_ORDER)
    features: int = MAILS_WIDTH
    steps: int = 30_000
    mean_delay: ClassVar[int] = 300
    cities: ClassVar[int] = 500
    late_cities: ClassVar[int] = 300

    def stream(self, seed: int, steps: int | None = None) -> Stream:
        """Return the stream of ``seed``; by default it has the task's own length."""
        length = self.steps if steps is None else steps
        _, score_rng, order_rng = stream_generators(seed, length, 3)
        customers = self.customers(seed, length)
        rates = self._rates(customers, score_rng)
        paid, reported = draw_orders(rates, LARGEST_ORDER, order_rng)
        delays = np.full(length, label_age(self.mean_delay))
        return Stream(self._encoded(customers), paid, self._available(length), delays, reported=reported)

    def customers(self, seed: int, steps: int | None = None) -> list[dict[str, Any]]:
        """Return the attributes of each customer."""
        length = self.steps if steps is None else steps
        rng = stream_generators(seed, length, 3)[0]
        early = np.arange(length) < length // 2
        shares = zipf(self.cities)
        is_late = rng.permutation(self.cities) < self.late_cities
        old = np.where(is_late, 0, shares)
        city = np.where(
            early,
            rng.choice(self.cities, length, p=old / old.sum()),
            rng.choice(self.cities, length, p=shares),
        )
        age = rng.normal(45, 15, length).clip(18, 95).round()
        plan, device = rng.choice(3, length, p=(0.6, 0.3, 0.1)), rng.choice(3, length, p=(0.5, 0.4, 0.1))
        visits, hour = rng.geometric(0.1, length), rng.integers(24, size=length)
        is_member, defect = rng.random(length) < 0.3, rng.random(length)
        rows: list[dict[str, Any]] = []
        for step in range(length):
            row: dict[str, Any] = {
                "city": f"city-{city[step]}",
                "plan": ("free", "plus", "pro")[plan[step]],
                "device": ("phone", "desktop", "tablet")[device[step]],
                "visits": int(visits[step]),
                "hour": int(hour[step]),
                "member": bool(is_member[step]),
            }
            if step == 0 or defect[step] >= 0.25:
                row["age"] = float(age[step])
            elif defect[step] < 0.03:
                row["age"] = "n/a" if defect[step] < 0.015 else float("nan")
            if step >= length // 3:
                row["since"] = str(datetime.date(2015, 1, 1) + datetime.timedelta(int(3000 * defect[step])))
            rows.append(row)
        return rows

    def _rates(self, customers: list[dict[str, Any]], rng: np.random.Generator) -> Float64:
        """Return the probability of an order by customer and offer."""
        signals = np.array([_signals(row) for row in customers])
        signals = (signals - signals.mean(axis=0)) / np.maximum(signals.std(axis=0), 1e-9)
        count = signals.shape[1]
        audiences: Float64 = np.zeros((count, len(self.arms) + 1))  # the last column is used after the change
        for offer in range(audiences.shape[1]):
            chosen = rng.choice(count, rng.integers(2, 4), replace=False)
            signs = rng.choice((-1.0, 1.0), chosen.size)
            audiences[chosen, offer] = signs * rng.uniform(0.6, 1.2, chosen.size)
        scores = signals @ audiences
        scores[len(scores) // 2 :, 3] = scores[len(scores) // 2 :, -1]
        level = rng.uniform(0.035, 0.06, len(self.arms))
        rates: Float64 = (level * np.exp(0.7 * scores[:, :-1])).clip(0.01, 0.16)
        rates[len(rates) // 2 :, 1:3] = 0.01
        return rates

    def _available(self, steps: int) -> Bool:
        last = len(self.arms) - 1
        return available_between(steps, last + 1, last, 0.4, 1) & available_between(
            steps, last + 1, 0, 0, 2 / 3
        )

    @staticmethod
    def _encoded(customers: list[dict[str, Any]]) -> Float32:
        """Return the contexts as numbers, encoded one after another."""
        from glcb.bandit.encoding.encoder import Encoder  # imports Numba, which listing tasks does not need

        encoder = Encoder({}, customers[0], None)
        contexts: Float32 = np.empty((len(customers), encoder.width), np.float32)
        for step, row in enumerate(customers):
            encoded = encoder.encode(row)
            contexts[step] = encoded.x
            encoder.commit(encoded)
        return contexts


def _signals(row: dict[str, Any]) -> tuple[float, ...]:
    """Return the numbers on which rates depend."""
    age = row.get("age")
    known = age if isinstance(age, float) and age == age else 45.0
    return (
        known,
        float(row["plan"] == "free"),
        float(row["device"] == "phone"),
        float(np.log(row["visits"])),
        float(8 <= row["hour"] < 18),
        float(row["member"]),
        float(int(row["city"].partition("-")[2]) % 3 == 0),
    )
