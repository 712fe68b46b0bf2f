"""A bandit with two features, so that its estimates can be drawn as maps.

    python examples/plane.py

Each of three arms is best in one region of the unit square, with curved borders. The figure shows the
regions, the arm with the highest estimate after few and after many decisions, and the exploration bonus of
one arm: small where the arm has been chosen often, large elsewhere.
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
COLORS = ("#3b6fb6", "#e08a2e", "#5a9e5a")
GRID = 100
"""Points of the maps in each direction."""
GOOD, BAD = 0.8, 0.2
"""Reward probability of the best arm and of the other arms."""


def best(x: np.ndarray) -> np.ndarray:
    """Return the index of the best arm at each point."""
    in_disk = np.hypot(x[:, 0] - 0.55, x[:, 1] - 0.5) < 0.28
    above = x[:, 1] > 0.5 + 0.25 * np.sin(5 * x[:, 0])
    return np.where(in_disk, 2, above.astype(int))


def grid_points() -> np.ndarray:
    """Return a grid of points that covers the square."""
    centers = (np.arange(GRID) + 0.5) / GRID
    return np.stack(np.meshgrid(centers, centers), axis=-1).reshape(-1, 2)


def train(bandit: GLCB, decisions: int, rng: np.random.Generator) -> None:
    """Decide and learn at random points."""
    for x in rng.random((decisions, 2)):
        arm = bandit.decide(x).arm
        probability = GOOD if ARMS[best(x[None])[0]] == arm else BAD
        bandit.learn(x, arm, float(rng.random() < probability))


def estimates(bandit: GLCB) -> tuple[np.ndarray, np.ndarray]:
    """Return the index of the arm with the highest value and the bonus of the first arm, at each point."""
    decisions = bandit.decide_many(grid_points())
    values = np.array([decision.values for decision in decisions])
    bonuses = np.array([decision.bonuses[0] for decision in decisions])
    return values.argmax(axis=1), bonuses


def draw(panels: dict[str, np.ndarray], bonuses: np.ndarray, path: Path) -> None:
    """Draw the maps of arms, followed by the map of the bonus."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.colors import ListedColormap
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 3.2), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(1, len(panels) + 1)
    for panel, (title, arms) in zip(axes, panels.items(), strict=False):
        _map(panel, arms, title, cmap=ListedColormap(COLORS), vmin=0, vmax=len(ARMS) - 1)
    # Clip the largest bonuses, which belong to regions where the arm has never been chosen.
    shown = np.minimum(bonuses, np.quantile(bonuses, 0.98))
    _map(axes[-1], shown, f"Bonus of {ARMS[0]}", cmap="Greys", vmin=0)
    figure.savefig(path, dpi=110)


def _map(panel: "Axes", values: np.ndarray, title: str, **options: Any) -> None:
    panel.imshow(values.reshape(GRID, GRID), origin="lower", extent=(0, 1, 0, 1), **options)
    panel.set_title(title)
    panel.set_xticks([])
    panel.set_yticks([])


def main(few: int, many: int, out: Path, seed: int) -> None:
    """Train a bandit, print its accuracy and draw its estimates."""
    if importlib.util.find_spec("matplotlib") is None:
        raise MissingExtra("the figure needs matplotlib: pip install '.[report]'")
    bandit, rng = GLCB(ARMS, features=2, seed=seed), np.random.default_rng(seed)
    truth = best(grid_points())
    panels = {"The best arm": truth}
    for decisions in (few, many):
        train(bandit, decisions - bandit.updates, rng)
        arms, bonuses = estimates(bandit)
        panels[f"After {decisions:,} decisions"] = arms
        print(f"after {decisions:,} decisions: correct on {(arms == truth).mean():.0%} of the square")
    draw(panels, bonuses, out)
    print(f"figure: {out}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--few", type=int, default=100)
    parser.add_argument("--many", type=int, default=10_000)
    parser.add_argument("--out", type=Path, default=Path("plane.png"))
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    main(chosen.few, chosen.many, chosen.out, chosen.seed)
