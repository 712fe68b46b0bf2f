"""The contest behind ``glcb demo``: GLCB and the yardsticks on the wheel."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.table import Table

from glcb.bench.figures import band, figure
from glcb.bench.simulation import Played, simulate
from glcb.bench.statistics import mean_and_error
from glcb.policies import GLCB, UCB1, EpsilonGreedy, LinTS, LinUCB, Policy, Uniform
from glcb.tasks import Wheel

_TASK = Wheel()


@dataclass(frozen=True, eq=False)
class Game:
    """One policy, one seed."""

    player: str
    optimum: float
    played: Played


def players() -> tuple[type[Policy], ...]:
    """Return the policies that take part."""
    return (GLCB, LinUCB, LinTS, UCB1, EpsilonGreedy, Uniform)


def play_wheel(player: type[Policy], seed: int, steps: int) -> Game:
    """Let a new ``player`` play the wheel of ``seed``."""
    stream = _TASK.stream(seed, steps)
    policy = player(_TASK.arms, _TASK.features, rewards=_TASK.rewards, seed=seed)
    return Game(player.__name__, stream.optimum, simulate(policy, stream))


def table(games: list[Game]) -> Table:
    """Return who got how much, how close to the best possible, and how fast."""
    result = Table()
    for heading in ("policy", "reward", "share of optimum", "µs per decision", "seeds"):
        result.add_column(heading, justify="left" if heading == "policy" else "right")
    for player, own in _by_player(games).items():
        mean, error = mean_and_error([game.played.total for game in own])
        share = np.mean([game.played.total / game.optimum for game in own])
        speed = 1e6 * np.median(np.concatenate([game.played.decide_seconds for game in own]))
        result.add_row(
            player,
            f"{mean:,.0f}" + (f" ± {error:,.0f}" if error is not None else ""),
            f"{share:.1%}",
            f"{speed:.0f}",
            str(len(own)),
        )
    return result


def picture(games: list[Game], path: Path) -> None:
    """Draw the cumulative reward of every policy over time, mean and standard error, into ``path``."""
    with figure(path, width=7, height=4.5) as (axes,):
        for player, own in _by_player(games).items():
            curves = np.cumsum([game.played.rewards for game in own], axis=1)
            band(axes, np.arange(1, curves.shape[1] + 1), curves, label=player)
        seeds = len(games) // len(_by_player(games))
        axes.set(
            xlabel="step", ylabel="cumulative reward", title=f"Wheel bandit, mean ± s.e. of {seeds} seeds"
        )
        axes.legend(frameon=False)


def _by_player(games: list[Game]) -> dict[str, list[Game]]:
    """Group by player, in the order in which they took part."""
    grouped: dict[str, list[Game]] = {}
    for game in games:
        grouped.setdefault(game.player, []).append(game)
    return grouped
