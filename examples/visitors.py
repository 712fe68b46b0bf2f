"""An online shop shows each visitor one of four banners and learns which banner suits which visitors.

    python examples/visitors.py

The visitors are simulated, so the click probability of every banner is available for comparison. Clicks are
reported with a delay of some minutes, and one report in five is lost. Visitors who do not click send nothing:
without a report within an hour, the reward is the default of 0. Clicks and zeros are learned at the same age.
"""

import argparse
import importlib.util
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from glcb import Bandit, ClosedDecision, MissingExtra

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from glcb import Explanation

BANNERS = ("discount", "free shipping", "new arrivals", "gift ideas")
COUNTRIES = ("FR", "DE", "IT", "PL")
DEVICES = ("phone", "laptop", "tablet")

SECONDS_BETWEEN_VISITORS = 20.0
SECONDS_TO_A_REPORT = 900.0
"""Mean delay of the report of a click."""
REWARD_TIMEOUT = 3600.0
LOST = 0.2
"""Share of clicks that are never reported."""

BLOCK = 100
"""Consecutive visitors resampled together by the bootstrap, because they are correlated."""
BANDIT_COLOR, RANDOM_COLOR = "tab:blue", "tab:orange"


def visitor(rng: np.random.Generator, now: float) -> dict[str, Any]:
    """Draw the context of a visitor who arrives at time ``now``."""
    return {
        "country": COUNTRIES[rng.choice(4, p=[0.4, 0.3, 0.2, 0.1])],
        "device": DEVICES[rng.choice(3, p=[0.6, 0.3, 0.1])],
        "age": int(rng.integers(18, 80)),
        "hour": round(now / 3600 % 24, 2),
        "returning": bool(rng.random() < 0.4),
        "basket": round(float(rng.lognormal(3, 0.8)), 2) if rng.random() < 0.8 else None,
    }


def click_probabilities(context: dict[str, Any]) -> list[float]:
    """Return the probability that this visitor clicks, for each banner."""
    young, evening = context["age"] < 35, context["hour"] >= 18
    full = (context["basket"] or 0) > 30
    logits = (
        -2.6 + 1.6 * young + 0.8 * (context["country"] == "PL"),
        -2.4 + 1.7 * full - 0.5 * (context["device"] == "phone"),
        -2.8 + 1.5 * context["returning"] + 1.0 * (context["country"] == "FR"),
        -3.0 + 1.2 * evening + 1.2 * (context["age"] > 60),
    )
    return [1 / (1 + math.exp(-logit)) for logit in logits]


@dataclass
class World:
    """The simulated clock, and the reports of clicks that have not arrived yet."""

    now: float = 0.0
    """Seconds since the start."""
    reports: list[tuple[float, str, float]] = field(default_factory=list)
    """Future reports: arrival time, decision id and delay."""

    def time(self) -> float:
        """Return the time; the clock of the bandit."""
        return self.now

    def due(self) -> list[tuple[float, str, float]]:
        """Remove and return the reports that have arrived, in order of arrival."""
        arrived = sorted(report for report in self.reports if report[0] <= self.now)
        self.reports = [report for report in self.reports if report[0] > self.now]
        return arrived


@dataclass(frozen=True)
class Season:
    """The results for all visitors."""

    clicks: np.ndarray
    """Clicks on the banners chosen by the bandit."""
    uniform: np.ndarray
    """Clicks on uniformly random banners, for the same visitors."""
    probabilities: np.ndarray
    """True click probability of each banner."""
    shown: np.ndarray
    """Index of the banner chosen by the bandit."""
    delays: list[float]
    """Delays of the reports that arrived in time, in seconds."""
    lost: int
    too_late: int


def simulate(bandit: Bandit, world: World, visitors: int, seed: int) -> Season:
    """Simulate visitors and the reports of their clicks."""
    rng = np.random.default_rng(seed)
    number = {arm: index for index, arm in enumerate(bandit.arms)}
    clicks, uniform = np.zeros(visitors), np.zeros(visitors)
    probabilities = np.zeros((visitors, len(number)))
    shown = np.zeros(visitors, np.int64)
    delays: list[float] = []
    lost = too_late = 0
    for step in range(visitors):
        world.now += float(rng.exponential(SECONDS_BETWEEN_VISITORS))
        for _, name, delay in world.due():
            try:
                bandit.reward(name, 1)
                delays.append(delay)
            except ClosedDecision:
                too_late += 1
        context = visitor(rng, world.now)
        probabilities[step] = click_probabilities(context)
        would_click = rng.random(len(number)) < probabilities[step]
        decision = bandit.decide(context)
        shown[step] = number[decision.arm]
        clicks[step] = would_click[shown[step]]
        uniform[step] = would_click[rng.integers(len(number))]
        if clicks[step]:
            delay = float(rng.exponential(SECONDS_TO_A_REPORT))
            if rng.random() < LOST:
                lost += 1
            else:
                world.reports.append((world.now + delay, decision.id, delay))
    return Season(clicks, uniform, probabilities, shown, delays, lost, too_late)


def lift(season: Season) -> tuple[float, float, float]:
    """Return the lift in clicks over random banners, with a 95% bootstrap interval."""
    blocks = np.arange(len(season.clicks)) // BLOCK
    bandit, random = np.bincount(blocks, season.clicks), np.bincount(blocks, season.uniform)
    drawn = np.random.default_rng(0).integers(len(bandit), size=(2000, len(bandit)))
    lifts = bandit[drawn].sum(axis=1) / np.maximum(random[drawn].sum(axis=1), 1) - 1
    low, high = np.quantile(lifts, [0.025, 0.975])
    return float(bandit.sum() / max(random.sum(), 1) - 1), float(low), float(high)


def draw(season: Season, why: "Explanation", headline: str, path: Path) -> None:
    """Draw clicks, choices, delays and an explanation into one figure."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 7.5), layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle(headline, fontsize=14)
    axes = figure.subplots(2, 2).ravel()
    for panel in axes:
        panel.spines[["top", "right"]].set_visible(False)
        panel.set_axisbelow(True)
    _draw_clicks(axes[0], season)
    _draw_choices(axes[1], season)
    _draw_reports(axes[2], season)
    _draw_reasons(axes[3], why)
    figure.savefig(path, dpi=144)


def _draw_clicks(panel: "Axes", season: Season) -> None:
    lines = (
        ("best banner", season.probabilities.max(axis=1), "0.55"),
        ("bandit", season.clicks, BANDIT_COLOR),
        ("random banner", season.uniform, RANDOM_COLOR),
    )
    window = max(1, min(2000, len(season.clicks) // 5))
    steps = np.arange(window, len(season.clicks) + 1)
    for name, values, color in lines:
        share = 100 * np.convolve(values, np.ones(window) / window, "valid")
        panel.plot(steps, share, color=color, linestyle="-" if name != lines[0][0] else ":", label=name)
    panel.legend(loc="lower center", ncols=len(lines), frameon=False, fontsize=9)
    panel.set_title(f"Clicks per 100 visitors, mean of {window:,}", loc="left")
    panel.set(xlabel="visitors", ylim=(0, None))
    panel.set_xticks(np.linspace(0, len(season.clicks), 5))
    panel.xaxis.set_major_formatter("{x:,.0f}")
    panel.grid(alpha=0.3)


def _draw_choices(panel: "Axes", season: Season) -> None:
    """Draw the chosen against the best banner in the last quarter; the diagonal is correct."""
    last = slice(-max(1, len(season.shown) // 4), None)
    best, shown = season.probabilities.argmax(axis=1)[last], season.shown[last]
    table = np.zeros((len(BANNERS), len(BANNERS)))
    np.add.at(table, (best, shown), 1)
    shares = 100 * table / np.maximum(table.sum(axis=1, keepdims=True), 1)
    panel.imshow(shares, cmap="Blues", vmin=0, vmax=100, aspect="auto")
    for (row, column), share in np.ndenumerate(shares):
        color = "white" if share > 55 else "black"
        panel.annotate(f"{share:.0f}", (column, row), ha="center", va="center", color=color)
    panel.set_xticks(range(len(BANNERS)), [name.replace(" ", "\n") for name in BANNERS])
    panel.set_yticks(range(len(BANNERS)), BANNERS)
    panel.set_title("Chosen banners in the last quarter, %", loc="left")
    panel.set(xlabel="chosen banner", ylabel="best banner")
    panel.tick_params(length=0)
    panel.spines[:].set_visible(False)


def _draw_reports(panel: "Axes", season: Season) -> None:
    minutes = np.array(season.delays) / 60
    panel.hist(
        minutes,
        bins=np.arange(0, REWARD_TIMEOUT / 60 + 2.5, 2.5).tolist(),
        color=BANDIT_COLOR,
        edgecolor="white",
    )
    panel.axvline(REWARD_TIMEOUT / 60, color="black", linewidth=0.8)
    clicks = int(season.clicks.sum())
    panel.annotate(
        f"{clicks:,} clicks\n{len(minutes):,} reported within an hour\n{season.lost:,} lost, "
        f"{season.too_late:,} too late",
        (0.35, 0.95), xycoords="axes fraction", ha="left", va="top", linespacing=1.6,
    )  # fmt: skip
    panel.set_title("Delay of reports", loc="left")
    panel.set(xlabel="minutes after the decision", ylabel="reports")
    panel.grid(alpha=0.3)


def _draw_reasons(panel: "Axes", why: "Explanation") -> None:
    best = why.arms[int(why.scores.argmax())]
    values_of = dict(zip(why.features, why.feature_values, strict=True))
    parts = why.contributions_of(best)
    values = [100 * value for value in parts.values()]
    colors = [BANDIT_COLOR if value >= 0 else RANDOM_COLOR for value in values]
    panel.barh(range(len(values)), values, color=colors)
    panel.axvline(0, color="black", linewidth=0.8)
    for place, value in enumerate(values):
        panel.annotate(
            f"{value:+.1f}", (value, place), (4 if value >= 0 else -4, 0), textcoords="offset points",
            ha="left" if value >= 0 else "right", va="center",
        )  # fmt: skip
    panel.margins(x=0.2)
    panel.invert_yaxis()
    panel.set_yticks(range(len(values)), [f"{name} = {values_of[name]}" for name in parts])
    index = why.arms.index(best)
    base, value = 100 * why.bases[index], 100 * why.values[index]
    panel.set_title(f"Why “{best}”? From {base:.1f} to {value:.1f} clicks", loc="left")
    panel.set_xlabel("contribution, in clicks per 100 visitors")


def main(visitors: int, out: Path, seed: int) -> None:
    """Simulate, print the results and draw the figure."""
    if importlib.util.find_spec("matplotlib") is None:
        raise MissingExtra("the figure needs matplotlib: pip install '.[report]'")
    world = World()
    bandit = Bandit(
        BANNERS,
        schema={"hour": (0, 24)},
        reward_timeout=REWARD_TIMEOUT,
        default_reward=0,
        clock=world.time,
        seed=seed,
    )
    season = simulate(bandit, world, visitors, seed)
    gain, low, high = lift(season)
    headline = f"{gain:+.0%} clicks compared with random banners (95%: {low:+.0%} to {high:+.0%})"
    print(f"{visitors:,} visitors in {world.now / 86_400:.1f} days: {headline}")
    print(
        f"  bandit {season.clicks.mean():.1%}, random {season.uniform.mean():.1%}, "
        f"best banner {season.probabilities.max(axis=1).mean():.1%}"
    )
    print("  " + ", ".join(f"{count:,} {name}" for name, count in bandit.counts.items()))
    context = {
        "country": "FR", "device": "laptop", "age": 27, "hour": 20.5, "returning": True, "basket": 12.0
    }  # fmt: skip
    why = bandit.explain(context)
    print(f"\nWhy this banner for {context}?\n{why.sentence(why.arms[int(why.scores.argmax())])}")
    draw(season, why, f"{visitors:,} visitors: {headline}", out)
    print(f"\nfigure: {out}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--visitors", type=int, default=20_000)
    parser.add_argument("--out", type=Path, default=Path("visitors.png"))
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    main(chosen.visitors, chosen.out, chosen.seed)
