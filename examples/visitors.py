"""A shop shows one of four banners to each of its visitors, and learns which one whom to show.

    python examples/visitors.py

The visitors are made up, so it is known what each of them would have clicked on. A click is reported some
minutes later, and one in five reports gets lost. Who does not click says nothing: after an hour without a
report the bandit takes it for no click.
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
"""Of a click, on average."""
REWARD_TIMEOUT = 3600.0
LOST = 0.2
"""The share of clicks that nobody ever hears of."""

BLOCK = 100
"""Visitors in a row that are drawn together for the interval, as neighbors are alike."""
OURS, OTHERS = "tab:blue", "tab:orange"


def visitor(rng: np.random.Generator, now: float) -> dict[str, Any]:
    """Make up somebody who comes now."""
    return {
        "country": COUNTRIES[rng.choice(4, p=[0.4, 0.3, 0.2, 0.1])],
        "device": DEVICES[rng.choice(3, p=[0.6, 0.3, 0.1])],
        "age": int(rng.integers(18, 80)),
        "hour": round(now / 3600 % 24, 2),
        "been here before": bool(rng.random() < 0.4),
        "basket": round(float(rng.lognormal(3, 0.8)), 2) if rng.random() < 0.8 else None,
    }


def tastes(who: dict[str, Any]) -> list[float]:
    """Return the probability that this visitor clicks, banner by banner."""
    young, evening = who["age"] < 35, who["hour"] >= 18
    full = (who["basket"] or 0) > 30
    logits = (
        -2.6 + 1.6 * young + 0.8 * (who["country"] == "PL"),
        -2.4 + 1.7 * full - 0.5 * (who["device"] == "phone"),
        -2.8 + 1.5 * who["been here before"] + 1.0 * (who["country"] == "FR"),
        -3.0 + 1.2 * evening + 1.2 * (who["age"] > 60),
    )
    return [1 / (1 + math.exp(-logit)) for logit in logits]


@dataclass
class World:
    """Visitors, one after the other, and reports of their clicks, which take their time."""

    now: float = 0.0
    """Seconds since it began."""
    reports: list[tuple[float, str, float]] = field(default_factory=list)
    """Clicks that are still to be reported: when, of which decision, and after how long."""

    def time(self) -> float:
        """Return the time: this is the bandit's clock."""
        return self.now

    def due(self) -> list[tuple[float, str, float]]:
        """Return the reports that have come by now, first come first."""
        come = sorted(report for report in self.reports if report[0] <= self.now)
        self.reports = [report for report in self.reports if report[0] > self.now]
        return come


@dataclass(frozen=True)
class Season:
    """What came of all visitors."""

    clicks: np.ndarray
    """Of the banners that the bandit showed."""
    uniform: np.ndarray
    """Of banners that were drawn at random, shown to the same visitors."""
    chances: np.ndarray
    """The true probability of a click, on each banner."""
    shown: np.ndarray
    """Which banner the bandit showed."""
    delays: list[float]
    """Of the reports that came in time, in seconds."""
    lost: int
    too_late: int


def play(bandit: Bandit, world: World, visitors: int, seed: int) -> Season:
    """Let visitors come, and reports of clicks in between."""
    rng = np.random.default_rng(seed)
    number = {arm: index for index, arm in enumerate(bandit.arms)}
    clicks, uniform, chances = np.zeros(visitors), np.zeros(visitors), np.zeros((visitors, len(number)))
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
        who = visitor(rng, world.now)
        chances[step] = tastes(who)
        would_click = rng.random(len(number)) < chances[step]
        decision = bandit.decide(who)
        shown[step] = number[decision.arm]
        clicks[step] = would_click[shown[step]]
        uniform[step] = would_click[rng.integers(len(number))]
        if clicks[step]:
            delay = float(rng.exponential(SECONDS_TO_A_REPORT))
            if rng.random() < LOST:
                lost += 1
            else:
                world.reports.append((world.now + delay, decision.id, delay))
    return Season(clicks, uniform, chances, shown, delays, lost, too_late)


def lift(season: Season) -> tuple[float, float, float]:
    """Return by how much the bandit's clicks exceed those at random, and a 95 % interval (bootstrap)."""
    blocks = np.arange(len(season.clicks)) // BLOCK
    ours, others = np.bincount(blocks, season.clicks), np.bincount(blocks, season.uniform)
    drawn = np.random.default_rng(0).integers(len(ours), size=(2000, len(ours)))
    lifts = ours[drawn].sum(axis=1) / np.maximum(others[drawn].sum(axis=1), 1) - 1
    low, high = np.quantile(lifts, [0.025, 0.975])
    return float(ours.sum() / max(others.sum(), 1) - 1), float(low), float(high)


def draw(season: Season, why: "Explanation", headline: str, path: Path) -> None:
    """Draw the whole story into one picture."""
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
        ("best banner for each", season.chances.max(axis=1), "0.55"),
        ("bandit", season.clicks, OURS),
        ("at random", season.uniform, OTHERS),
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
    """Draw whom which banner was shown in the last quarter: the diagonal is right."""
    last = slice(-max(1, len(season.shown) // 4), None)
    best, shown = season.chances.argmax(axis=1)[last], season.shown[last]
    table = np.zeros((len(BANNERS), len(BANNERS)))
    np.add.at(table, (best, shown), 1)
    shares = 100 * table / np.maximum(table.sum(axis=1, keepdims=True), 1)
    panel.imshow(shares, cmap="Blues", vmin=0, vmax=100, aspect="auto")
    for (row, column), share in np.ndenumerate(shares):
        color = "white" if share > 55 else "black"
        panel.annotate(f"{share:.0f}", (column, row), ha="center", va="center", color=color)
    panel.set_xticks(range(len(BANNERS)), [name.replace(" ", "\n") for name in BANNERS])
    panel.set_yticks(range(len(BANNERS)), BANNERS)
    panel.set_title("Who was shown what in the last quarter, %", loc="left")
    panel.set(xlabel="shown", ylabel="best for the visitor")
    panel.tick_params(length=0)
    panel.spines[:].set_visible(False)


def _draw_reports(panel: "Axes", season: Season) -> None:
    minutes = np.array(season.delays) / 60
    panel.hist(
        minutes, bins=np.arange(0, REWARD_TIMEOUT / 60 + 2.5, 2.5).tolist(), color=OURS, edgecolor="white"
    )
    panel.axvline(REWARD_TIMEOUT / 60, color="black", linewidth=0.8)
    clicks = int(season.clicks.sum())
    panel.annotate(
        f"{clicks:,} clicks\n{len(minutes):,} reported within the hour\n{season.lost:,} lost, "
        f"{season.too_late:,} too late",
        (0.35, 0.95), xycoords="axes fraction", ha="left", va="top", linespacing=1.6,
    )  # fmt: skip
    panel.set_title("When clicks were reported", loc="left")
    panel.set(xlabel="minutes after the decision", ylabel="reports")
    panel.grid(alpha=0.3)


def _draw_reasons(panel: "Axes", why: "Explanation") -> None:
    best = why.arms[int(why.scores.argmax())]
    given = dict(zip(why.features, why.given, strict=True))
    parts = why.contributions_of(best)
    values = [100 * value for value in parts.values()]
    colors = [OURS if value >= 0 else OTHERS for value in values]
    panel.barh(range(len(values)), values, color=colors)
    panel.axvline(0, color="black", linewidth=0.8)
    for place, value in enumerate(values):
        panel.annotate(
            f"{value:+.1f}", (value, place), (4 if value >= 0 else -4, 0), textcoords="offset points",
            ha="left" if value >= 0 else "right", va="center",
        )  # fmt: skip
    panel.margins(x=0.2)
    panel.invert_yaxis()
    panel.set_yticks(range(len(values)), [f"{name} = {given[name]}" for name in parts])
    index = why.arms.index(best)
    base, value = 100 * why.bases[index], 100 * why.values[index]
    panel.set_title(f"Why “{best}”? From {base:.1f} to {value:.1f} clicks", loc="left")
    panel.set_xlabel("contribution, in clicks per 100 visitors")


def main(visitors: int, out: Path, seed: int) -> None:
    """Play, tell and draw."""
    if importlib.util.find_spec("matplotlib") is None:
        raise MissingExtra("the picture needs matplotlib: pip install '.[report]'")
    world = World()
    bandit = Bandit(
        BANNERS,
        schema={"hour": (0, 24)},
        reward_timeout=REWARD_TIMEOUT,
        default_reward=0,
        clock=world.time,
        seed=seed,
    )
    season = play(bandit, world, visitors, seed)
    gain, low, high = lift(season)
    headline = f"{gain:+.0%} clicks over banners at random (95 %: {low:+.0%} to {high:+.0%})"
    print(f"{visitors:,} visitors in {world.now / 86_400:.1f} days: {headline}")
    print(
        f"  bandit {season.clicks.mean():.1%}, at random {season.uniform.mean():.1%}, "
        f"best banner for each {season.chances.max(axis=1).mean():.1%}"
    )
    print("  " + ", ".join(f"{count:,} {name}" for name, count in bandit.counts.items()))
    somebody = {
        "country": "FR", "device": "laptop", "age": 27, "hour": 20.5, "been here before": True, "basket": 12.0
    }  # fmt: skip
    why = bandit.explain(somebody)
    print(f"\nWhy this banner, for {somebody}?\n{why.sentence(why.arms[int(why.scores.argmax())])}")
    draw(season, why, f"{visitors:,} visitors: {headline}", out)
    print(f"\nPicture: {out}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--visitors", type=int, default=20_000)
    parser.add_argument("--out", type=Path, default=Path("visitors.png"))
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    main(chosen.visitors, chosen.out, chosen.seed)
