"""``glcb demo``: the wheel bandit, played by GLCB and the yardsticks."""

from pathlib import Path
from typing import Annotated

import typer


def demo(
    seeds: Annotated[int, typer.Option(min=1, help="Runs of each policy.")] = 5,
    steps: Annotated[int, typer.Option(min=1, help="Steps of each run.")] = 5000,
    out: Annotated[Path, typer.Option(help="Where to save the picture.")] = Path("glcb-demo.png"),
) -> None:
    """Play the wheel bandit with GLCB and simpler policies, side by side."""
    from rich.console import Console
    from rich.progress import track

    from glcb._errors import MissingExtra
    from glcb.bench import demo as contest
    from glcb.bench.figures import check_picture

    check_picture(out)
    console = Console()
    console.print(f"The wheel bandit: {steps:,} steps, {seeds} seeds, the same rewards for every policy.")
    players = contest.players()
    games = [(player, seed) for player in players for seed in range(seeds)]
    played = [
        contest.play_wheel(player, seed, steps)
        for player, seed in track(games, "Playing", console=console, transient=True)
    ]
    console.print(contest.table(played))
    console.print("On the wheel a linear policy is hard to beat; `glcb bench` plays more tasks.")
    try:
        contest.picture(played, out)
    except MissingExtra as missing:
        console.print(f"No picture: {missing}", markup=False)
    else:
        console.print(f"Reward over time: {out}")
