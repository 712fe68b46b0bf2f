"""``glcb learn``: train a bandit on a log."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from glcb.cli._options import (
    ArmColumn,
    ContextColumn,
    IgnoreColumns,
    PropensityColumn,
    RewardColumn,
    split,
)

_PROPENSITIES = ("p", "prob", "probability", "propensity_score", "pscore")
"""Names that propensities often have."""

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console

    from glcb._types import Arm, Rewards
    from glcb.bandit import Bandit, LogReport
    from glcb.bandit.logs import LogColumns


def learn(
    log: Annotated[
        Path, typer.Argument(metavar="LOG", help="JSON lines, CSV or Parquet file.", show_default=False)
    ],
    out: Annotated[Path, typer.Option(metavar="FILE", help="File to save the model to.", show_default=False)],
    start: Annotated[
        Path | None,
        typer.Option(
            "--from",
            metavar="MODEL",
            help="Continue training this model instead of a new one.",
            show_default=False,
        ),
    ] = None,
    arms: Annotated[
        str,
        typer.Option(metavar="NAMES", help="Arms, separated by commas.", show_default="all in the log"),
    ] = "",
    policy: Annotated[
        str | None, typer.Option(metavar="NAME", help="Policy; see `glcb policies`.", show_default="glcb")
    ] = None,
    rewards: Annotated[
        str | None,
        typer.Option(
            metavar="RANGE",
            help="`binary`, or the lowest and highest reward, as in `0,10`.",
            show_default="binary",
        ),
    ] = None,
    seed: Annotated[int | None, typer.Option(metavar="N", help="Random seed.", show_default="0")] = None,
    format_: Annotated[
        str | None,
        typer.Option(
            "--format",
            metavar="FORMAT",
            help="jsonl, csv or parquet.",
            show_default="from the file name",
        ),
    ] = None,
    context_column: ContextColumn = "context",
    arm_column: ArmColumn = "arm",
    reward_column: RewardColumn = "reward",
    propensity_column: PropensityColumn = "propensity",
    ignore_columns: IgnoreColumns = "",
) -> None:
    """Train a bandit on a log of decisions and rewards, and save the model.

    The log is either a file written by `Bandit.log_to`, or a table with one row per decision: context, arm
    and reward. The model is saved at the end; load it with `Bandit.load`.
    """
    from rich.console import Console

    from glcb._errors import InvalidSettings, LogError
    from glcb.bandit import Bandit
    from glcb.bandit.logs import LogColumns
    from glcb.policies.registry import require_packages

    require_packages(policy or "glcb")
    console = Console(stderr=True, highlight=False)
    if not out.absolute().parent.is_dir():
        raise InvalidSettings(f"the folder {out.parent} does not exist")
    layout = LogColumns(context_column, arm_column, reward_column, propensity_column, split(ignore_columns))
    flags = {"arms": arms or None, "policy": policy, "rewards": rewards, "seed": seed}
    chosen = {name: value for name, value in flags.items() if value is not None}
    if start is not None and chosen:
        options = ", ".join(f"--{name}" for name in chosen)
        raise InvalidSettings(f"{options} cannot be combined with --from: {start} already defines them")
    bandit = Bandit.load(start) if start is not None else _new_bandit(log, format_, layout, chosen)
    report = _learn(bandit, log, format_, layout, console)
    console.print(str(report), markup=False, soft_wrap=True)
    if not report.decisions and not report.learned:
        raise LogError(f"{log} has no usable rows; nothing was saved")
    if unused := _unused(log, format_, layout):
        console.print(f"not features, because of their names: {', '.join(unused)}", markup=False)
    for warning in _warnings(bandit):
        console.print(f"warning: {warning}", markup=False, soft_wrap=True)
    bandit.save(out)
    console.print(f"model: {out}; load it with Bandit.load({str(out)!r})", markup=False, soft_wrap=True)


def _new_bandit(log: Path, form: str | None, layout: "LogColumns", chosen: dict[str, str | int]) -> "Bandit":
    """Return a new bandit with the chosen arguments; without --arms, with the arms in the log."""
    from glcb.bandit import Bandit
    from glcb.bandit.logs import arms_in

    arms = _parse_arms(str(chosen["arms"])) if "arms" in chosen else arms_in(log, form, layout)
    return Bandit(
        arms,
        policy=str(chosen.get("policy", "glcb")),
        rewards=_parse_rewards(str(chosen.get("rewards", "binary"))),
        seed=int(chosen.get("seed", 0)),
    )


def _learn(
    bandit: "Bandit", log: Path, form: str | None, layout: "LogColumns", console: "Console"
) -> "LogReport":
    """Learn from the log, with a progress bar."""
    from rich.progress import Progress

    with Progress(console=console, transient=True) as progress:
        bar = progress.add_task("learning", total=1.0)
        latest: list[LogReport] = []

        def show(report: "LogReport") -> None:
            latest[:] = [report]
            progress.update(bar, completed=report.share)

        try:
            return bandit.learn_from(
                log,
                format=form,
                context_column=layout.context,
                arm_column=layout.arm,
                reward_column=layout.reward,
                propensity_column=layout.propensity,
                ignore_columns=layout.ignore,
                progress=show,
            )
        except KeyboardInterrupt:
            learned = latest[0].learned if latest else 0
            progress.console.print(f"stopped after at least {learned:,} rewards; nothing was saved")
            raise


def _unused(log: Path, form: str | None, layout: "LogColumns") -> list[str]:
    """Return the columns without a role that are not features because of their names."""
    from glcb.bandit.logs.format import NOT_FEATURES, is_event
    from glcb.bandit.logs.reader import read_records

    values = next((record.values for record in read_records(log, form, layout) if record.values), {})
    if is_event(values) or layout.context in values:
        return []
    roles = {layout.arm, layout.reward, layout.propensity, layout.arm_features, *layout.ignore}
    return sorted((values.keys() & NOT_FEATURES) - roles)


def _warnings(bandit: "Bandit") -> "Iterator[str]":
    """Yield a warning for each feature that is probably an identifier or a propensity."""
    from glcb.bandit.encoding.schema import identifiers

    schema = bandit.schema
    if schema is None:
        return
    for name, share in identifiers(schema, bandit.counts["decisions"]).items():
        yield (
            f"{share:.1%} of the values of {name!r} have no slot of their own. It looks like an identifier "
            f"or a time, from which nothing can be learned: leave it out (--ignore-columns {name})"
        )
    for name, feature in schema.features.items():
        low, high = feature.limits or (-1.0, 2.0)
        if name.lower() in _PROPENSITIES and 0 <= low <= high <= 1:
            yield f"{name!r} is a feature. If it is the propensity, pass --propensity-column {name}"


def _parse_arms(text: str) -> "tuple[Arm, ...]":
    from glcb._text import is_integer

    names = split(text)
    return tuple(map(int, names)) if all(map(is_integer, names)) else names


def _parse_rewards(text: str) -> "Rewards":
    from glcb._errors import InvalidSettings

    if text == "binary":
        return "binary"
    try:
        low, high = map(float, text.split(","))
    except ValueError:
        raise InvalidSettings(f"--rewards must be `binary` or a range such as `0,10`, got {text!r}") from None
    return low, high
