"""Articles on a homepage, with clicks reported late or never, and articles that come and go.

A visit every nine seconds; six articles to choose from, later one more, and finally one less. A visitor has a
country, a device, the hour and an age, which is missing in 30% of the visits. The logit of the click
probability is a sum of effects of these features, drawn for each article and seed, and shifted so that a
random article has the desired click rate. A click is reported after an exponential delay, or never. The
absence of a click is never reported.
"""

import heapq
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from rich.table import Table

from benchmarks.studies.stored import StoredResults, available_policies
from glcb._arrays import Float64
from glcb.bandit import Bandit, recorded
from glcb.bench.statistics import format_mean
from glcb.policies import registry

POLICIES = ("glcb", "linucb", "lints", "epsilon-greedy", "vw-squarecb")
STEPS = 30_000
"""Number of visits."""
SECONDS_PER_VISIT = 9.0
MEAN_DELAY = 300.0
"""Mean delay of the report of a click, in seconds."""
LOSS_RATE = 0.05
"""Share of the clicks that are never reported."""
MISSING_RATE = 0.3
COUNTRIES, DEVICES = ("FR", "DE", "IT", "ES", "PL"), ("phone", "laptop", "tablet")
ARTICLES = tuple(f"article {number}" for number in range(1, 8))
ADDED, REMOVED = ARTICLES[-1], ARTICLES[0]
"""The article added after a third of the visits, and the article removed after two thirds."""
MODEL = ARTICLES[1]
"""The article that the added one can be similar to."""
SIMILAR, PARTLY_SIMILAR, UNLIKE = 0.9, 0.5, 0.0
_TOO_MANY = 10_000_000

LearnedAt = Literal["label age", "timeout", "as known"]
"""When a decision is learned: at the label age, at the timeout, or a click when it is reported and its
absence at the timeout."""


class Setup(NamedTuple):
    """The setup of the bandit and its information."""

    policy: str = "glcb"
    window: float | None = None
    """Reward timeout in seconds. None: every outcome is reported at once."""
    half_life: int | None = None
    like: str | None = None
    """The article that the added article copies at first."""
    adds: bool = True
    """Whether an article is added."""
    learned_at: LearnedAt = "label age"


@dataclass(frozen=True)
class Homepage:
    """All visits of one seed."""

    contexts: Sequence[dict[str, Any]]
    probabilities: Float64
    """Probability of a click, by visit and article."""
    clicks: Float64
    """Whether the visitor would click on each article."""
    delays: Float64
    """Delay of the report in seconds, by visit and article; infinite if it is lost."""

    def eligible(self, step: int, adds: bool) -> list[int]:
        """Return the articles that can be shown."""
        visits = len(self.contexts)
        without = {ADDED} if step < visits // 3 or not adds else set()
        without |= {REMOVED} if step >= 2 * (visits // 3) else set()
        return [index for index, article in enumerate(ARTICLES) if article not in without]


def make_homepage(
    seed: int,
    click_rate: float,
    visits: int = STEPS,
    similarity: float = UNLIKE,
    delay_ratio: float = 1.0,
    loss_rate: float = LOSS_RATE,
) -> Homepage:
    """Return the visits of one seed.

    Parameters
    ----------
    seed : int
        The seed of all random numbers.
    click_rate : float
        Mean probability of a click on a random article.
    visits : int
        The number of visits.
    similarity : float
        Correlation between the effects of the added article and of ``MODEL``.
    delay_ratio : float
        Mean delay of the slowest article, relative to the fastest article.
    loss_rate : float
        Share of the clicks that are never reported.

    Returns
    -------
    Homepage
        The visits.
    """
    rng = np.random.default_rng((seed, 0x686F6D65))
    n = len(ARTICLES)
    country = rng.choice(len(COUNTRIES), visits, p=[0.35, 0.25, 0.2, 0.12, 0.08])
    device = rng.choice(len(DEVICES), visits, p=[0.6, 0.3, 0.1])
    hour = np.arange(visits) * SECONDS_PER_VISIT / 3600 % 24
    age = rng.integers(18, 80, visits)
    is_missing = rng.random(visits) < MISSING_RATE
    effects = rng.normal(size=(11, n)) * np.repeat([0.6, 0.35, 0.6, 0.35, 0.3], [5, 3, 1, 1, 1])[:, None]
    peak = rng.uniform(0, 24, n)
    model, added = ARTICLES.index(MODEL), ARTICLES.index(ADDED)
    effects[:, added] *= (1 - similarity**2) ** 0.5
    effects[:, added] += similarity * effects[:, model]
    peak[added] = peak[model] if similarity else peak[added]
    logits = effects[:5][country] + effects[5:8][device] + np.where(age < 40, 1, -1)[:, None] * effects[8]
    logits += np.cos((hour[:, None] - peak) * 2 * np.pi / 24) * effects[9] + effects[10]
    probabilities = _with_mean(logits, click_rate)
    clicks = (rng.random((visits, n)) < probabilities).astype(np.float64)
    slowness = delay_ratio ** np.linspace(-0.5, 0.5, n)[rng.permutation(n)]
    delays = rng.exponential(MEAN_DELAY, (visits, n)) * slowness
    delays[rng.random((visits, n)) < loss_rate] = np.inf
    contexts = [
        {
            "country": COUNTRIES[country[step]],
            "device": DEVICES[device[step]],
            "hour": float(hour[step]),
            "age": None if is_missing[step] else int(age[step]),
        }
        for step in range(visits)
    ]
    return Homepage(contexts, probabilities, clicks, delays)


def _with_mean(logits: Float64, mean: float) -> Float64:
    """Return the probabilities of shifted logits with this mean, found by bisection."""
    low, high = -20.0, 20.0
    for _ in range(50):
        shift = (low + high) / 2
        if np.mean(1 / (1 + np.exp(-logits - shift))) < mean:
            low = shift
        else:
            high = shift
    result: Float64 = 1 / (1 + np.exp(-logits - low))
    return result


def lift(homepage: Homepage, setup: Setup, seed: int) -> float:
    """Return the lift over random articles of a bandit that chooses the articles.

    It is measured in expected clicks, which have less noise than clicks. The random articles include the
    added article even if the bandit does not have it.
    """
    now = 0.0
    has_timeout = setup.window is not None and setup.learned_at != "as known"
    can_change = registry.get(setup.policy).policy_class.arms_can_change
    bandit = Bandit(
        [article for article in ARTICLES if article != ADDED or not can_change],
        policy=setup.policy,
        schema={"hour": (0, 24)},
        max_pending=_TOO_MANY,
        reward_timeout=setup.window if has_timeout else None,
        default_reward=0 if has_timeout else None,
        reward_aggregation="max" if has_timeout and setup.learned_at == "timeout" else "first",
        clock=lambda: now,
        half_life=setup.half_life,
        seed=seed,
    )
    reports: list[tuple[float, str, int]] = []
    expected = random = 0.0
    eligible: list[int] = []
    for step, context in enumerate(homepage.contexts):
        visit_at = step * SECONDS_PER_VISIT
        while reports and reports[0][0] <= visit_at:
            now, decision_id, reward = heapq.heappop(reports)
            if recorded.is_pending(bandit, decision_id):
                bandit.reward(decision_id, reward)
        now = visit_at
        before, eligible = eligible, homepage.eligible(step, setup.adds)
        if can_change and before and before != eligible:
            for index in set(eligible) - set(before):
                bandit.add_arm(ARTICLES[index], like=setup.like)
            for index in set(before) - set(eligible):
                bandit.remove_arm(ARTICLES[index])
        decision = bandit.decide(
            context, eligible=None if can_change else [ARTICLES[index] for index in eligible]
        )
        shown = ARTICLES.index(str(decision.arm))
        probabilities = homepage.probabilities[step]
        expected += probabilities[shown]
        random += probabilities[homepage.eligible(step, adds=True)].mean()
        clicked, delay = homepage.clicks[step, shown], homepage.delays[step, shown]
        if setup.window is None:
            bandit.reward(decision.id, clicked if delay < np.inf else 0)
        elif clicked and delay <= setup.window:
            heapq.heappush(reports, (visit_at + delay, decision.id, 1))
        elif not has_timeout:
            heapq.heappush(reports, (visit_at + setup.window, decision.id, 0))
    return expected / random - 1


WINDOWS: Mapping[str, float | None] = {"no delay": None, "30 min": 1800.0, "2 h": 7200.0, "24 h": 86_400.0}
CLICK_RATES = (0.05, 0.2)
_BASE = Setup(window=WINDOWS["2 h"])
"""The default policy with a window of two hours; the smaller comparisons vary it."""


class Cell(NamedTuple):
    """One lift of a table, for every seed."""

    setup: Setup
    click_rate: float = CLICK_RATES[0]
    similarity: float = UNLIKE
    delay_ratio: float = 1.0


Comparison = Mapping[str, Mapping[str, Cell]]
"""Cells by row and column."""


def policy_comparison(policies: Sequence[str], click_rate: float) -> Comparison:
    """Return the windows as rows and the policies as columns."""
    return {
        name: {policy: Cell(Setup(policy, window), click_rate) for policy in policies}
        for name, window in WINDOWS.items()
    }


NEW_ARTICLE: Comparison = {
    f"{name}, {rate:.0%}": {
        "not added": Cell(_BASE._replace(adds=False), rate, similarity),
        "untrained": Cell(_BASE, rate, similarity),
        "like=": Cell(_BASE._replace(like=MODEL), rate, similarity),
    }
    for rate in CLICK_RATES
    for name, similarity in (("similar", SIMILAR), ("partly similar", PARTLY_SIMILAR), ("unlike", UNLIKE))
}
LABEL_AGE: Comparison = {
    f"{name}, {rate:.0%}": {
        "label age": Cell(_BASE, rate, delay_ratio=ratio),
        "no delay": Cell(_BASE._replace(window=None), rate),
        "timeout": Cell(_BASE._replace(learned_at="timeout"), rate, delay_ratio=ratio),
        "as known": Cell(_BASE._replace(learned_at="as known"), rate, delay_ratio=ratio),
    }
    for rate in CLICK_RATES
    for name, ratio in (("the same", 1.0), ("slowest 16 × fastest", 16.0))
}
FORGETTING: Comparison = {
    f"{rate:.0%}": {
        "no half-life" if half_life is None else f"{half_life:,}": Cell(
            _BASE._replace(half_life=half_life), rate
        )
        for half_life in (None, 16_000, 4000)
    }
    for rate in CLICK_RATES
}


def tables(stored: StoredResults, seeds: int, steps: int) -> Iterator[Table]:
    """Yield the lift over random articles in expected clicks, and paired differences from the first column.

    Without delay, every outcome is reported at once; otherwise only clicks are reported, and the window is
    the reward timeout. In the last three tables, the window is two hours.
    """
    policies = available_policies(POLICIES)
    comparisons = {
        **{f"windows, click rate {rate:.0%}": policy_comparison(policies, rate) for rate in CLICK_RATES},
        "new article": NEW_ARTICLE,
        "learned at, by delays of articles": LABEL_AGE,
        "half-life": FORGETTING,
    }
    for title, rows in comparisons.items():
        columns = list(next(iter(rows.values())))
        table = Table("", *columns, title=f"Lift over random articles, %, mean ± s.e.: {title}")
        for name, row in rows.items():
            lifts = [[_measure(stored, cell, seed, steps) for seed in range(seeds)] for cell in row.values()]
            percent = 100 * np.array(lifts)
            texts = [format_mean(own.tolist(), "+.1f") for own in percent]
            for index, change in enumerate(percent[1:] - percent[0], 1):
                texts[index] += f"\n({format_mean(change.tolist(), '+.1f')})"
            table.add_row(name, *texts)
        yield table


def _measure(stored: StoredResults, cell: Cell, seed: int, visits: int) -> float:
    def measure() -> float:
        homepage = make_homepage(seed, cell.click_rate, visits, cell.similarity, cell.delay_ratio)
        return lift(homepage, cell.setup, seed)

    return stored.get(cell.setup.policy, f"homepage {visits} {seed} {cell}", measure)
