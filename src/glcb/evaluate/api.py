"""``evaluate`` and ``convert``: from a log and policies to results."""

import hashlib
import json
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Literal

from glcb._errors import InvalidInput, InvalidSettings, LogError
from glcb._files import atomic_write
from glcb._text import is_integer
from glcb._types import Arm, reward_range
from glcb.bandit.bandit import Bandit
from glcb.bandit.logs.format import LogColumns, plain_context
from glcb.evaluate import checkpoint, estimators, formats
from glcb.evaluate.evaluation import DEFAULT_ESTIMATORS, LOGGED, Evaluator, Plan
from glcb.evaluate.formats import Layout, vowpal_wabbit
from glcb.evaluate.result import Evaluation
from glcb.evaluate.rows import LoggedDecision, LogRow, Survey
from glcb.evaluate.targets import BanditTarget, BestFixedArm, Constant, Rule, RuleTarget, Target, Uniform
from glcb.policies import registry

Stage = Literal["reading", "evaluating"]
Progress = Callable[[Stage, float], None]
"""Called with the stage and the share of it that is done."""

_CHECKPOINT_SECONDS = 10.0
_SURVEY_ROWS = 5000
"""Rows between two calls of ``progress`` while the log is read for the first time."""


@dataclass(frozen=True)
class Frozen:
    """A bandit that does not learn while it is evaluated.

    Parameters
    ----------
    bandit : Bandit
        The bandit, as it is.
    """

    bandit: Bandit


Policy = str | Bandit | Frozen | Rule
"""A policy to evaluate."""


def evaluate(
    log: str | PathLike[str],
    policies: Mapping[str, Policy] | Sequence[str],
    *,
    estimators: Sequence[str] = DEFAULT_ESTIMATORS,
    reference: str = LOGGED,
    logging: Literal["uniform"] | None = None,
    default_reward: float | None = None,
    format: str | None = None,  # noqa: A002 (the built-in is not used here)
    context_column: str = LogColumns.context,
    arm_column: str = LogColumns.arm,
    reward_column: str = LogColumns.reward,
    propensity_column: str = LogColumns.propensity,
    ignore_columns: Collection[str] = (),
    replay: bool = True,
    max_ratio: float | None = None,
    constant_values: bool = False,
    seed: int = 0,
    checkpoint_folder: str | PathLike[str] | None = None,
    progress: Progress | None = None,
) -> Evaluation:
    """Estimate what policies would have earned on a log of decisions.

    The log is read twice, row by row, in constant memory: once for its arms and rewards, once to evaluate.

    A bandit is evaluated in two ways, and neither changes it. Trained on the log: it assigns probabilities to
    a row and then learns from it, whatever arm was logged. By replay: it learns only from the rows in which
    the logged arm is accepted as its own choice, so it sees what it would have seen online.

    Parameters
    ----------
    log : str or path
        A log of a bandit, a table with one row per decision, Vowpal Wabbit text, decision-service JSON, or a
        table of the Open Bandit Dataset.
    policies : dict or list of str
        Policies by name: a `Bandit`, which learns; `Frozen(bandit)`, which does not; a function from a
        context to an arm or to probabilities by arm; or a string. Strings are "uniform", "best-fixed-arm",
        "arm=NAME", or the name of a policy, which learns.
    estimators : sequence of str
        Any of "ips", "snips", "clipped-ips", "dm", "dr", "switch-dr" and "shrunk-dr". The first one is drawn.
    reference : str, default "logged"
        The policy that differences are relative to; by default, the one that wrote the log.
    logging : "uniform", optional
        Vouch for it that the arms of the log were chosen uniformly at random, if it has no propensities.
    default_reward : float, optional
        Reward of decisions without one. Without it, they are left out.
    format : str, optional
        The format of the log. Default: detected.
    context_column, arm_column, reward_column, propensity_column : str
        Columns of a table.
    ignore_columns : collection of str
        Columns that are not features.
    replay : bool, default True
        Whether to replay the policies that learn.
    max_ratio : float, optional
        M, the bound of π / p for replay. Default: 1 / the smallest propensity.
    constant_values : bool, default False
        Add a betting confidence sequence, which is narrower and assumes that values do not change over time.
    seed : int, default 0
        Seed of all random numbers.
    checkpoint_folder : str or path, optional
        A folder for the state of an unfinished evaluation. An evaluation with the same log and arguments
        continues from it; it is removed at the end.
    progress : callable, optional
        Called with "reading" or "evaluating" and the share of it that is done.

    Returns
    -------
    Evaluation
        Values, intervals and checks. ``print`` shows a table.

    Raises
    ------
    LogError
        If the log cannot be read, or has no usable rows.
    InvalidInput
        If an argument is invalid, or the log has no propensities.

    Examples
    --------
    >>> bandit = Bandit(arms=["sports", "news"], exploration=0.5)
    >>> bandit.log_to("decisions.jsonl")
    >>> for age in range(20, 70):
    ...     decision = bandit.decide({"age": age})
    ...     bandit.reward(decision.id, float(decision.arm == "news"))  # doctest: +ELLIPSIS
    True
    ...
    >>> result = evaluate("decisions.jsonl", {"news": "arm=news", "rule": lambda context: "sports"})
    >>> round(result["news"].estimates["snips"].value, 6), result["rule"].estimates["snips"].value
    (1.0, 0.0)
    """
    path = Path(log)
    columns = LogColumns(context_column, arm_column, reward_column, propensity_column, tuple(ignore_columns))
    layout = Layout(columns, default_reward)
    named = {name: name for name in policies} if not isinstance(policies, Mapping) else dict(policies)
    _check_arguments(named, estimators, reference, logging, max_ratio)
    survey = _survey(path, format, layout, progress)
    plan = _plan(survey, named, estimators, reference, logging, seed)
    plan.constant_values = constant_values
    if max_ratio is not None:
        plan.max_ratio = max_ratio
    if not replay:
        plan.replays = {}
    evaluator = Evaluator(plan)
    folder = None if checkpoint_folder is None else Path(checkpoint_folder)
    fingerprint = _fingerprint(
        path, named, [list(estimators), reference, logging, layout, seed, replay, max_ratio]
    )
    if folder is not None:
        checkpoint.load(folder, evaluator, fingerprint)
    saved_at = time.monotonic()
    for rows in evaluator.run(
        _usable(formats.read(path, format, layout), plan.index, logging, len(plan.arms))
    ):
        if progress is not None:
            progress("evaluating", rows / survey.rows)
        if folder is not None and time.monotonic() - saved_at > _CHECKPOINT_SECONDS:
            checkpoint.save(folder, evaluator, fingerprint)
            saved_at = time.monotonic()
    if folder is not None:
        checkpoint.remove(folder)
    return evaluator.result()


def convert(
    log: str | PathLike[str],
    out: str | PathLike[str],
    *,
    to: Literal["jsonl", "vw"] = "jsonl",
    format: str | None = None,  # noqa: A002 (the built-in is not used here)
    columns: LogColumns | None = None,
    default_reward: float | None = None,
) -> Survey:
    """Convert a log to JSON lines with one decision each, or to Vowpal Wabbit text.

    In Vowpal Wabbit text, arms are numbers from 1, in the order of ``arms`` of the result.

    Parameters
    ----------
    log : str or path
        A log in any format that :func:`evaluate` reads.
    out : str or path
        The file to write. It is replaced atomically.
    to : {"jsonl", "vw"}
        The format to write.
    format : str, optional
        The format of the log. Default: detected.
    columns : LogColumns, optional
        Columns of a table.
    default_reward : float, optional
        Reward of decisions without one.

    Returns
    -------
    Survey
        What was converted, and which rows were refused.
    """
    if to not in ("jsonl", "vw"):
        raise InvalidSettings(f"to must be jsonl or vw, got {to!r}")
    path, target = Path(log), Path(out)
    if target.exists() and path.exists() and target.samefile(path):
        raise InvalidSettings(f"{out} is the log itself: name another file")
    layout = Layout(columns or LogColumns(), default_reward)
    survey = _survey(path, format, layout, None)
    arms, index = _arms(survey)
    if to == "vw" and survey.without_propensity:
        raise LogError(f"{survey.without_propensity:,} decisions of {log} have no propensity, which vw needs")
    rows = (row.decision for row in formats.read(path, format, layout) if row.decision is not None)
    lines = vowpal_wabbit.write(rows, index) if to == "vw" else map(_json_line, rows)
    try:
        with atomic_write(target) as file:
            for line in lines:
                file.write(line.encode())
    except OSError as error:
        raise LogError(f"cannot write {out}: {error.strerror or error}") from error
    survey.arms = _counts(survey, arms)
    return survey


def _json_line(decision: LoggedDecision) -> str:
    values = {
        "context": plain_context(decision.context),
        "arm": decision.arm,
        "reward": decision.reward,
        **({"propensity": decision.propensity} if decision.propensity else {}),
        **({"eligible": list(decision.eligible)} if decision.eligible is not None else {}),
        **({"arm_features": decision.arm_features} if decision.arm_features is not None else {}),
    }
    return json.dumps(values, ensure_ascii=False) + "\n"


# ---- the log ----------------------------------------------------------------------------------------


def survey(
    log: str | PathLike[str],
    *,
    format: str | None = None,  # noqa: A002 (the built-in is not used here)
    context_column: str = LogColumns.context,
    arm_column: str = LogColumns.arm,
    reward_column: str = LogColumns.reward,
    propensity_column: str = LogColumns.propensity,
    ignore_columns: Collection[str] = (),
    default_reward: float | None = None,
) -> Survey:
    """Return the arms of a log and the range of its rewards. The arguments are those of `evaluate`."""
    columns = LogColumns(context_column, arm_column, reward_column, propensity_column, tuple(ignore_columns))
    found = _survey(Path(log), format, Layout(columns, default_reward), None)
    found.arms = _counts(found, _arms(found)[0])
    return found


def _counts(survey: Survey, arms: tuple[Arm, ...]) -> dict[Arm, int]:
    """Return the number of decisions for each arm; an integer may be text in the log."""
    return {
        arm: sum(survey.arms.get(name, 0) for name in ((arm, str(arm)) if isinstance(arm, int) else (arm,)))
        for arm in arms
    }


def _survey(path: Path, form: str | None, layout: Layout, progress: Progress | None) -> Survey:
    """Read the whole log once."""
    survey = Survey()
    for number, row in enumerate(formats.read(path, form, layout), 1):
        survey.add(row, number)
        if progress is not None and number % _SURVEY_ROWS == 0:
            progress("reading", row.share)
    if not survey.rows:
        first = next(iter(survey.examples.values()), "it is empty")
        raise LogError(f"{path} has no decisions with a reward ({first})")
    return survey


def _arms(survey: Survey) -> tuple[tuple[Arm, ...], dict[Arm, int]]:
    """Return the arms, and their positions under all spellings. They are integers only if all of them are."""
    found = list(survey.arms)
    if all(isinstance(arm, int) or is_integer(arm) for arm in found):
        arms: tuple[Arm, ...] = tuple(sorted(set(map(int, found))))
    else:
        arms = tuple(sorted(found, key=lambda arm: (isinstance(arm, str), arm)))
    index: dict[Arm, int] = {}
    for position, arm in enumerate(arms):
        index.setdefault(str(arm), position)
    index.update({arm: position for position, arm in enumerate(arms)})
    return arms, index


def _usable(
    rows: Iterator[LogRow], index: Mapping[Arm, int], logging: str | None, arms: int
) -> Iterator[LoggedDecision]:
    """Yield the decisions that can be evaluated."""
    for row in rows:
        decision = row.decision
        if decision is None:
            continue
        if logging == "uniform":
            eligible = arms if decision.eligible is None else len(decision.eligible)
            decision = decision._replace(propensity=1 / eligible)
        if decision.propensity:
            yield decision


# ---- arguments --------------------------------------------------------------------------------------


def _check_arguments(
    policies: Mapping[str, Policy],
    chosen: Sequence[str],
    reference: str,
    logging: str | None,
    max_ratio: float | None,
) -> None:
    if not policies:
        raise InvalidSettings("name at least one policy to evaluate")
    if LOGGED in policies:
        raise InvalidSettings(f"{LOGGED!r} is the policy that wrote the log: choose another name")
    if not chosen or any(name not in estimators.NAMES for name in chosen):
        raise InvalidSettings(f"estimators must be among {', '.join(estimators.NAMES)}, got {list(chosen)}")
    if reference != LOGGED and reference not in policies:
        raise InvalidSettings(f"reference must be {LOGGED!r} or one of the policies, got {reference!r}")
    if logging not in (None, "uniform"):
        raise InvalidSettings(f"logging must be 'uniform' or None, got {logging!r}")
    if max_ratio is not None and not max_ratio >= 1:
        raise InvalidSettings(f"max_ratio must be at least 1, got {max_ratio!r}")


def _plan(
    survey: Survey,
    policies: Mapping[str, Policy],
    chosen: Sequence[str],
    reference: str,
    logging: str | None,
    seed: int,
) -> Plan:
    notes = []
    if logging == "uniform":
        survey.without_propensity = 0
        notes.append("The log was taken to be uniformly random, on the word of the user.")
    if survey.without_propensity == survey.rows:
        raise InvalidInput(
            "the log has no propensities, so it does not say what other arms would have earned. Name the "
            "column of the propensities, or, if the arms were chosen uniformly at random, pass "
            "logging='uniform' (--logging uniform)"
        )
    if survey.without_propensity:
        survey.refused["missing propensity"] = survey.without_propensity
        survey.examples["missing propensity"] = "decisions without the probability of their arm"
        survey.rows -= survey.without_propensity
    for policy in policies.values():
        own = policy.bandit if isinstance(policy, Frozen) else policy
        for arm in own.arms if isinstance(own, Bandit) else ():
            if arm not in survey.arms and str(arm) not in survey.arms:
                survey.arms[arm] = 0
    arms, index = _arms(survey)
    survey.arms = _counts(survey, arms)
    targets: dict[str, Target] = {}
    replays: dict[str, BanditTarget] = {}
    for name, policy in policies.items():
        resolved = _resolve(policy, arms, survey, seed) if isinstance(policy, str) else policy
        if isinstance(resolved, Bandit):
            _check_bandit(name, resolved, survey)
            targets[name] = BanditTarget(resolved, arms, learns=True)
            replays[name] = BanditTarget(resolved, arms, learns=True)
        elif isinstance(resolved, Frozen):
            _check_bandit(name, resolved.bandit, survey)
            targets[name] = BanditTarget(resolved.bandit, arms, learns=False)
        elif isinstance(resolved, Uniform):
            targets[name] = resolved
        else:
            targets[name] = RuleTarget(resolved, index, name)
    ratio = max(len(arms) * 1.0 if logging == "uniform" else 1 / survey.smallest_propensity, 1.0)
    return Plan(arms, index, survey, targets, replays, chosen, reference, seed, ratio, False, notes)


def _resolve(name: str, arms: tuple[Arm, ...], survey: Survey, seed: int) -> Bandit | Uniform:
    """Return the policy for a string."""
    if name == "uniform":
        return Uniform()
    if name == "best-fixed-arm":
        return BestFixedArm(len(arms))
    if name.startswith("arm="):
        spelled = {str(arm): position for position, arm in enumerate(arms)}
        arm = name.removeprefix("arm=")
        if arm not in spelled:
            raise InvalidSettings(f"there is no arm {arm!r}; the arms are {', '.join(list(spelled)[:8])}")
        return Constant(spelled[arm])
    if name not in registry.names():
        raise InvalidSettings(
            f"there is no policy {name!r}: use uniform, best-fixed-arm, arm=NAME, or a name that "
            "`glcb policies` lists"
        )
    return Bandit(arms, policy=name, rewards=survey.rewards, seed=seed)


def _check_bandit(name: str, bandit: Bandit, survey: Survey) -> None:
    low, high = reward_range(bandit.get_params()["rewards"])
    if survey.lowest < low or survey.highest > high:
        raise InvalidInput(
            f"the bandit {name!r} takes rewards from {low:g} to {high:g}, the log has {survey.lowest:g} to "
            f"{survey.highest:g}: create it with rewards=({survey.lowest:g}, {survey.highest:g})"
        )


def _fingerprint(path: Path, policies: Mapping[str, Policy], arguments: list[object]) -> str:
    """Identify an evaluation: the same log, policies and arguments give the same text."""
    about = path.stat()
    described = {name: repr(policy) for name, policy in policies.items()}
    text = repr((str(path.absolute()), about.st_size, about.st_mtime_ns, described, arguments))
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
