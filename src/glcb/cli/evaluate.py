"""``glcb evaluate`` and ``glcb convert``: estimate what other policies would have earned on a log."""

from os.path import commonpath
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

import typer

from glcb.cli._options import (
    AddressOption,
    ArmColumn,
    ContextColumn,
    IgnoreColumns,
    JobsOption,
    PropensityColumn,
    RewardColumn,
    split,
)

if TYPE_CHECKING:
    from glcb.evaluate import Evaluation
    from glcb.evaluate.api import Policy
    from glcb.evaluate.log import Stage
    from glcb.evaluate.rows import Survey

Log = Annotated[
    Path,
    typer.Argument(
        metavar="LOG",
        help="A log of a bandit, or a table, Vowpal Wabbit text, decision-service JSON or Open Bandit file.",
        show_default=False,
    ),
]
Format = Annotated[
    str | None,
    typer.Option(
        "--format",
        metavar="FORMAT",
        help="jsonl, csv, parquet, vw, dsjson or openbandit.",
        show_default="detected",
    ),
]
DefaultReward = Annotated[
    float | None,
    typer.Option(metavar="X", help="Reward to assume where the log has none.", show_default="left out"),
]


def evaluate(
    logs: Annotated[
        list[Path],
        typer.Argument(
            metavar="LOG...",
            help="A log of a bandit, or a table, Vowpal Wabbit text, decision-service JSON or Open Bandit "
            "file. Several files are one log, in this order.",
            show_default=False,
        ),
    ],
    policies: Annotated[
        str,
        typer.Option(
            metavar="NAMES",
            help="Policies, separated by commas: names of `glcb policies` (which learn), `uniform`, "
            "`best-fixed-arm`, `arm=NAME`, or model files (.glcb), which do not learn.",
        ),
    ] = "glcb,best-fixed-arm,uniform",
    variants: Annotated[
        list[str] | None,
        typer.Option(
            "--try",
            metavar="SETTINGS",
            help="Also evaluate `glcb` with other settings, separated by commas, such as `exploration=0.02`, "
            "`half_life=5000`, `policy=linucb` or `without=ARM`. Repeatable.",
            show_default=False,
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Folder for report.html, report.md and evaluation.json. An interrupted run resumes there.",
            show_default="no report",
        ),
    ] = None,
    estimators: Annotated[
        str | None,
        typer.Option(
            metavar="NAMES",
            help="Estimators, separated by commas: ips, snips, clipped-ips, dm, dr, switch-dr, shrunk-dr; "
            "for rankings rips, snips, ips, iips.",
            show_default="dr,snips,ips,dm; for rankings rips,snips,ips",
        ),
    ] = None,
    reference: Annotated[
        str, typer.Option(metavar="POLICY", help="Policy that differences are relative to.")
    ] = "logged",
    logging: Annotated[
        str | None,
        typer.Option(
            metavar="POLICY",
            help="`uniform` if the log has no propensities and its arms were chosen uniformly at random. For "
            "the estimator iips, `uniform` or the model file (.glcb) that wrote the log.",
            show_default=False,
        ),
    ] = None,
    default_reward: DefaultReward = None,
    replay: Annotated[
        bool, typer.Option("--replay/--no-replay", help="Replay the policies that learn.")
    ] = True,
    max_ratio: Annotated[
        float | None,
        typer.Option(metavar="M", help="Bound on π / p for replay.", show_default="1 / smallest propensity"),
    ] = None,
    min_propensity: Annotated[
        float | None,
        typer.Option(
            metavar="P",
            help="Smallest propensity of any arm under the logging policy, assumed by the interval of dr.",
            show_default="the smallest in the log",
        ),
    ] = None,
    constant_values: Annotated[
        bool,
        typer.Option(
            help="Add a betting confidence sequence. It assumes that values do not change over time."
        ),
    ] = False,
    seed: Annotated[int, typer.Option(metavar="N", help="Random seed.")] = 0,
    executor: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="Where to run: `local` uses one process on this machine, `ray` the cores of a Ray cluster.",
        ),
    ] = "local",
    address: AddressOption = None,
    jobs: JobsOption = None,
    form: Format = None,
    context_column: ContextColumn = "context",
    arm_column: ArmColumn = "arm",
    reward_column: RewardColumn = "reward",
    propensity_column: PropensityColumn = "propensity",
    ignore_columns: IgnoreColumns = "",
) -> None:
    """Estimate what policies would have earned on a log of decisions with propensities."""
    from rich.console import Console
    from rich.progress import Progress

    from glcb._errors import InvalidSettings
    from glcb._figures import require_matplotlib
    from glcb.evaluate import evaluate as run
    from glcb.evaluate.api import survey

    if out is not None:  # check the requirements of the report first
        require_matplotlib()
        try:
            out.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InvalidSettings(f"cannot create the folder {out}: {error.strerror}") from error
    console = Console(stderr=True, highlight=False)
    arguments: dict[str, Any] = {
        "format": form,
        "default_reward": default_reward,
        "context_column": context_column,
        "arm_column": arm_column,
        "reward_column": reward_column,
        "propensity_column": propensity_column,
        "ignore_columns": split(ignore_columns),
    }
    chosen: dict[str, Policy] = {name: _policy(name) for name in split(policies)}
    if variants:
        found = survey(logs, **arguments)
        chosen |= {settings: _variant(found, settings, seed) for settings in variants}
    if executor == "ray":
        folder = commonpath([path.absolute().parent for path in logs])
        console.print(f"log: every node reads its files in {folder}; nothing is copied", soft_wrap=True)
    with Progress(console=console, transient=True) as progress:
        bar = progress.add_task("reading", total=1.0)

        def show(stage: "Stage", share: float) -> None:
            progress.update(bar, description=stage, completed=share)

        result: Evaluation = run(
            logs,
            chosen,
            estimators=None if estimators is None else split(estimators),
            reference=reference,
            logging=cast("Any", None if logging is None else _policy(logging)),
            replay=replay,
            max_ratio=max_ratio,
            min_propensity=min_propensity,
            constant_values=constant_values,
            seed=seed,
            checkpoint_folder=None if out is None else out / "progress",
            progress=show,
            executor=cast("Any", executor),
            address=address,
            jobs=jobs,
            **arguments,
        )
    typer.echo(result.table())
    if out is not None:
        for path in result.write(out):
            typer.echo(path)


def _policy(name: str) -> "Policy":
    """Return the policy for a name or a model file."""
    if not name.endswith(".glcb"):
        return name
    from glcb.bandit import Bandit
    from glcb.evaluate import Frozen

    return Frozen(Bandit.load(name))


def _variant(found: "Survey", settings: str, seed: int) -> "Policy":
    """Return a bandit with changed settings, for the arms and rewards of the log."""
    from glcb._errors import InvalidSettings
    from glcb.bandit import Bandit

    arms: Any = {} if found.shares_arms else list(found.arms)
    changes: dict[str, Any] = {}
    for setting in split(settings):
        name, equals, value = setting.partition("=")
        if not equals:
            raise InvalidSettings(f"--try takes settings such as exploration=0.02, got {setting!r}")
        if name == "without":
            if found.shares_arms:
                raise InvalidSettings("--try without=ARM is for logs in which arms have no features")
            if value not in map(str, arms):
                raise InvalidSettings(
                    f"there is no arm {value!r}; the arms are {', '.join(map(str, arms[:8]))}"
                )
            arms = [arm for arm in arms if str(arm) != value]
        else:
            changes[name] = _parse(name, value)
    known = Bandit(arms).get_params()
    if unknown := [name for name in changes if name not in known]:
        raise InvalidSettings(f"Bandit has no setting {unknown[0]!r}; it has {', '.join(known)}")
    return Bandit(arms, **{"rewards": found.rewards, "seed": seed, **changes})


def _parse(name: str, value: str) -> str | int | float:
    if name in ("policy", "exploration_mode"):
        return value
    try:
        return float(value) if "." in value or "e" in value else int(value)
    except ValueError:
        return value


def convert(
    log: Log,
    out: Annotated[Path, typer.Argument(metavar="OUT", help="File to write.", show_default=False)],
    to: Annotated[
        str,
        typer.Option(
            metavar="FORMAT",
            help="jsonl (one decision per line), vw (Vowpal Wabbit text) or dsjson (decision-service JSON).",
        ),
    ] = "jsonl",
    form: Format = None,
    context_column: ContextColumn = "context",
    arm_column: ArmColumn = "arm",
    reward_column: RewardColumn = "reward",
    propensity_column: PropensityColumn = "propensity",
    ignore_columns: IgnoreColumns = "",
    default_reward: DefaultReward = None,
) -> None:
    """Convert a log to JSON lines with one decision each, or to a Vowpal Wabbit format.

    Only dsjson can hold rankings.
    """
    from glcb.bandit.logs import LogColumns
    from glcb.evaluate import convert as run

    columns = LogColumns(context_column, arm_column, reward_column, propensity_column, split(ignore_columns))
    found = run(
        log,
        out,
        to=cast('Literal["jsonl", "vw", "dsjson"]', to),
        format=form,
        columns=columns,
        default_reward=default_reward,
    )
    typer.echo(f"{found.rows:,} decisions, {sum(found.refused.values()):,} rows rejected")
    for reason, count in found.refused.items():
        typer.echo(f"  {count:,} × {reason}, for example {found.examples[reason]}")
    if to == "vw" and not found.featured:
        typer.echo("arms: " + ", ".join(f"{number} = {arm}" for number, arm in enumerate(found.arms, 1)))
