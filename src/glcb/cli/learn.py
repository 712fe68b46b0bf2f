"""``glcb learn``: a bandit that has learned from a log."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from glcb.cli._names import names

if TYPE_CHECKING:
    from rich.console import Console

    from glcb._types import Arm, Rewards
    from glcb.bandit import Bandit, LogReport
    from glcb.bandit.logs import Layout


def learn(
    log: Annotated[Path, typer.Argument(help="JSON lines, a CSV or a Parquet file.")],
    out: Annotated[Path, typer.Option(help="Where to save the model.")],
    start: Annotated[
        Path | None,
        typer.Option("--from", metavar="MODEL", help="Go on with this model, not with a new one."),
    ] = None,
    arms: Annotated[str, typer.Option(help="Names, separated by commas. Default: those in the log.")] = "",
    policy: Annotated[str | None, typer.Option(help="See `glcb policies`. Default: glcb.")] = None,
    rewards: Annotated[
        str | None,
        typer.Option(help="`binary`, or the lowest and the highest, as in `0,10`. Default: binary."),
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Of the model's random numbers. Default: 0.")] = None,
    format_: Annotated[
        str | None, typer.Option("--format", help="jsonl, csv or parquet. Default: by the ending.")
    ] = None,
    context_column: Annotated[
        str, typer.Option(help="Holds JSON objects; else others are features.")
    ] = "context",
    arm_column: Annotated[str, typer.Option(help="Holds the arm that was played.")] = "arm",
    reward_column: Annotated[str, typer.Option(help="Holds what came of it.")] = "reward",
    propensity_column: Annotated[str, typer.Option(help="Holds its probability, if known.")] = "propensity",
    ignore: Annotated[str, typer.Option(help="Columns that are no features, separated by commas.")] = "",
) -> None:
    """Learn from a log of decisions and rewards, and save the model.

    The log is one that `bandit.log_to` wrote, or has a row for each decision with its context, arm and
    reward. The model is written at the end, all of it or nothing: `Bandit.load` reads it.
    """
    from rich.console import Console

    from glcb._errors import InvalidSettings, LogError
    from glcb.bandit import Bandit
    from glcb.bandit.logs import Layout

    console = Console(stderr=True, highlight=False)
    if not out.absolute().parent.is_dir():
        raise InvalidSettings(f"there is no folder {out.parent} to save {out.name} in")
    layout = Layout(context_column, arm_column, reward_column, propensity_column, names(ignore))
    asked = {"arms": arms or None, "policy": policy, "rewards": rewards, "seed": seed}
    given = {name: value for name, value in asked.items() if value is not None}
    if start is not None and given:
        raise InvalidSettings(f"{', '.join(given)} cannot change: {start} has its own; leave them out")
    bandit = Bandit.load(start) if start is not None else _untrained(log, format_, layout, given)
    report = _follow(bandit, log, format_, layout, console)
    console.print(str(report), markup=False, soft_wrap=True)
    if not report.decisions and not report.learned:
        raise LogError(f"nothing could be learned from {log}, and nothing was saved")
    bandit.save(out)
    console.print(f"model: {out}; Bandit.load({str(out)!r}) goes on with it", markup=False, soft_wrap=True)


def _untrained(log: Path, form: str | None, layout: "Layout", given: dict[str, str | int]) -> "Bandit":
    """Return a bandit as it was asked for; arms that nobody named are those that occur in the log."""
    from glcb.bandit import Bandit
    from glcb.bandit.logs import arms_in

    named = _arms(str(given["arms"])) if "arms" in given else arms_in(log, form, layout)
    return Bandit(
        named,
        policy=str(given.get("policy", "glcb")),
        rewards=_rewards(str(given.get("rewards", "binary"))),
        seed=int(given.get("seed", 0)),
    )


def _follow(
    bandit: "Bandit", log: Path, form: str | None, layout: "Layout", console: "Console"
) -> "LogReport":
    """Learn from the log, with a progress bar."""
    from rich.progress import Progress

    with Progress(console=console, transient=True) as progress:
        bar = progress.add_task("learning", total=1.0)
        known: list[LogReport] = []

        def show(report: "LogReport") -> None:
            known[:] = [report]
            progress.update(bar, completed=report.share)

        try:
            return bandit.learn_from(
                log,
                format=form,
                context=layout.context,
                arm=layout.arm,
                reward=layout.reward,
                propensity=layout.propensity,
                ignore=layout.ignore,
                progress=show,
            )
        except KeyboardInterrupt:
            learned = known[0].learned if known else 0
            progress.console.print(f"stopped after {learned:,} rewards or some more; nothing was saved")
            raise


def _arms(given: str) -> "tuple[Arm, ...]":
    from glcb._text import is_integer

    named = names(given)
    return tuple(map(int, named)) if all(map(is_integer, named)) else named


def _rewards(given: str) -> "Rewards":
    from glcb._errors import InvalidSettings

    if given == "binary":
        return "binary"
    try:
        low, high = map(float, given.split(","))
    except ValueError:
        raise InvalidSettings(f"rewards are `binary` or two numbers such as `0,10`, got {given!r}") from None
    return low, high
