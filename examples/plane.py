"""A bandit with two features, so that everything it knows fits into a picture.

    python examples/plane.py

Three arms are best in three regions of the square, with curved borders. The picture shows the regions, what
the bandit would play after a few and after many decisions, and how large its bonus for one arm is: small
where that arm was tried, large where it was not.
"""

import argparse
import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from glcb import GLCB, MissingExtra

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ARMS = ("blue", "orange", "green")
COLOURS = ("#3b6fb6", "#e08a2e", "#5a9e5a")
GRID = 100
"""Points of the picture in each direction."""
GOOD, BAD = 0.8, 0.2
"""Probability of a reward, for the best arm of a place and for the others."""


def best(x: np.ndarray) -> np.ndarray:
    """Return the number of the best arm at each place."""
    in_the_middle = np.hypot(x[:, 0] - 0.55, x[:, 1] - 0.5) < 0.28
    above = x[:, 1] > 0.5 + 0.25 * np.sin(5 * x[:, 0])
    return np.where(in_the_middle, 2, above.astype(int))


def places() -> np.ndarray:
    """Return a grid that covers the square."""
    middles = (np.arange(GRID) + 0.5) / GRID
    return np.stack(np.meshgrid(middles, middles), axis=-1).reshape(-1, 2)


def play(bandit: GLCB, decisions: int, rng: np.random.Generator) -> None:
    """Decide and learn, at random places."""
    for x in rng.random((decisions, 2)):
        arm = bandit.decide(x).arm
        chance = GOOD if ARMS[best(x[None])[0]] == arm else BAD
        bandit.learn(x, arm, float(rng.random() < chance))


def beliefs(bandit: GLCB) -> tuple[np.ndarray, np.ndarray]:
    """Return at each place the number of the arm with the best value, and the bonus of the first arm."""
    decisions = bandit.decide_many(places())
    values = np.array([decision.values for decision in decisions])
    bonuses = np.array([decision.bonuses[0] for decision in decisions])
    return values.argmax(axis=1), bonuses


def draw(panels: dict[str, np.ndarray], bonuses: np.ndarray, path: Path) -> None:
    """Draw maps of arms side by side, and the map of the bonus behind them."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.colors import ListedColormap
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 3.2), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(1, len(panels) + 1)
    for panel, (title, arms) in zip(axes, panels.items(), strict=False):
        _map(panel, arms, title, cmap=ListedColormap(COLOURS), vmin=0, vmax=len(ARMS) - 1)
    # Far ends are cut off: bonuses where an arm was never tried are as large as they can be.
    shown = np.minimum(bonuses, np.quantile(bonuses, 0.98))
    _map(axes[-1], shown, f"Bonus of {ARMS[0]}", cmap="Greys", vmin=0)
    figure.savefig(path, dpi=110)


def _map(panel: "Axes", values: np.ndarray, title: str, **how: Any) -> None:
    panel.imshow(values.reshape(GRID, GRID), origin="lower", extent=(0, 1, 0, 1), **how)
    panel.set_title(title)
    panel.set_xticks([])
    panel.set_yticks([])


def main(few: int, many: int, out: Path, seed: int) -> None:
    """Play, tell and draw."""
    if importlib.util.find_spec("matplotlib") is None:
        raise MissingExtra("the picture needs matplotlib: pip install '.[report]'")
    bandit, rng = GLCB(ARMS, features=2, seed=seed), np.random.default_rng(seed)
    truth = best(places())
    panels = {"The best arm": truth}
    for decisions in (few, many):
        play(bandit, decisions - bandit.updates, rng)
        arms, bonuses = beliefs(bandit)
        panels[f"After {decisions:,} decisions"] = arms
        print(f"after {decisions:,} decisions it is right on {(arms == truth).mean():.0%} of the square")
    draw(panels, bonuses, out)
    print(f"Picture: {out}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--few", type=int, default=100)
    parser.add_argument("--many", type=int, default=10_000)
    parser.add_argument("--out", type=Path, default=Path("plane.png"))
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    main(chosen.few, chosen.many, chosen.out, chosen.seed)
