"""``evaluate`` and ``convert``: from a log and policies to results."""

import hashlib
import json
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, Literal

from glcb import _model_file
from glcb._errors import InvalidInput, InvalidSettings, LogError
from glcb._files import atomic_write
from glcb._types import Arm, reward_range
from glcb._version import __version__
from glcb.bandit.bandit import Bandit
from glcb.bandit.logs.format import LogColumns, plain_context
from glcb.evaluate import checkpoint, estimators, formats, marginals
from glcb.evaluate.evaluation import DEFAULT_ESTIMATORS, LOGGED, RANKING_ESTIMATORS, EvaluationPlan, Evaluator
from glcb.evaluate.executors import LocalLogExecutor, make_executor
from glcb.evaluate.formats import Layout, dsjson, vowpal_wabbit
from glcb.evaluate.log import LogFiles, Progress, count_arms, find_arms, survey_rows
from glcb.evaluate.result import Evaluation
from glcb.evaluate.rows import LoggedDecision, Survey
from glcb.evaluate.targets import (
    BanditTarget,
    BestFixedArm,
    Constant,
    Rule,
    RuleTarget,
    Target,
    UniformTarget,
)
from glcb.policies import registry

_CHECKPOINT_SECONDS = 10.0


@dataclass(frozen=True)
class Frozen:
    """A bandit that does not learn while it is evaluated.

    Parameters
    ----------
    bandit : Bandit
        The bandit to evaluate in its current state.
    """

    bandit: Bandit


Policy = str | Bandit | Frozen | Rule
"""A policy to evaluate."""


def evaluate(
    log: str | PathLike[str] | Sequence[str | PathLike[str]],
    policies: Mapping[str, Policy] | Sequence[str],
    *,
    estimators: Sequence[str] | None = None,
    reference: str = LOGGED,
    logging: Literal["uniform"] | Frozen | Rule | None = None,
    default_reward: float | None = None,
    format: str | None = None,  # noqa: A002 (the built-in is not used here)
    context_column: str = LogColumns.context,
    arm_column: str = LogColumns.arm,
    reward_column: str = LogColumns.reward,
    propensity_column: str = LogColumns.propensity,
    ignore_columns: Collection[str] = (),
    replay: bool = True,
    max_ratio: float | None = None,
    min_propensity: float | None = None,
    constant_values: bool = False,
    seed: int = 0,
    checkpoint_folder: str | PathLike[str] | None = None,
    progress: Progress | None = None,
    executor: Literal["local", "ray"] = "local",
    address: str | None = None,
    jobs: int | None = None,
) -> Evaluation:
    """Estimate what policies would have earned on a log of decisions.

    The log is read twice, row by row: once for its arms and rewards, once to evaluate. The local executor
    needs constant memory. With Ray, policy outputs for a file are kept until they have been added up.

    A bandit is evaluated in two ways, which do not change it. Trained on the log: it assigns probabilities
    to a row and then learns from it, whatever arm was logged. By replay: it learns only from rows whose
    logged arm is accepted as its own choice, so it sees what it would have seen online.

    In a log of rankings, a row is a ranking, and its reward is the sum of the rewards of its slots. Rankings
    are not replayed.

    Parameters
    ----------
    log : str, path or list of them
        A log of a bandit, a table with one row per decision, Vowpal Wabbit text, decision-service JSON, or a
        table of the Open Bandit Dataset. Several files are one log, in this order. A decision and its reward
        must be in the same file.
    policies : dict or list of str
        Policies by name: a `Bandit`, which learns; `Frozen(bandit)`, which does not; a function from a
        context to an arm, to probabilities by arm or to a ranking (a list); or a string. Strings are
        "uniform", "best-fixed-arm", "arm=NAME", or the name of a policy, which learns. If the log has
        features of the arms, it learns from them.
    estimators : sequence of str, optional
        Any of "ips", "snips", "clipped-ips", "dm", "dr", "switch-dr" and "shrunk-dr"; for rankings, any of
        "rips", "snips", "ips" and "iips". The first one is plotted. Default: "dr", "snips", "ips" and "dm",
        or "rips", "snips" and "ips".
    reference : str, default "logged"
        The policy that differences are relative to; by default, the policy that wrote the log.
    logging : "uniform", Frozen or function, optional
        The policy that wrote the log. "uniform" asserts that the arms were chosen uniformly at random, if the
        log has no propensities. Estimator "iips" needs the policy for marginal propensities.
    default_reward : float, optional
        Reward to assume where the log has none. Without it, such decisions are left out.
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
    min_propensity : float, optional
        The smallest propensity that the logging policy gives to any arm, assumed by the confidence sequence
        of "dr". Default: the smallest propensity in the log.
    constant_values : bool, default False
        Add a betting confidence sequence, which is narrower and assumes that values do not change over time.
    seed : int, default 0
        Seed of all random numbers.
    checkpoint_folder : str or path, optional
        A folder for the state of an unfinished evaluation. An evaluation with the same log and arguments
        continues from it; it is removed at the end.
    progress : callable, optional
        Called with "reading" or "evaluating" and the completed share.
    executor : {"local", "ray"}, default "local"
        Where to evaluate: in this process, or in tasks of a Ray cluster, which have one thread each. The
        results are the same, to the last digit if BLAS has one thread in this process as well. With "ray", a
        function among the policies must depend on nothing but the context.
    address : str, optional
        Address of the Ray cluster. Default: the environment variable ``RAY_ADDRESS``, or an instance of Ray
        on this machine.
    jobs : int, optional
        Maximum number of tasks of Ray at a time, at least 1. Default: one per core.

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
    InvalidSettings
        If a node of Ray has another version of glcb, or the cluster cannot be reached.
    MissingExtra
        If the executor is "ray" and Ray is not installed, or a policy needs a package that is missing.

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
    columns = LogColumns(context_column, arm_column, reward_column, propensity_column, tuple(ignore_columns))
    layout = Layout(columns, default_reward)
    files = LogFiles(_paths(log), format, layout)
    named = {name: name for name in policies} if not isinstance(policies, Mapping) else dict(policies)
    check_arguments(named, reference, logging, max_ratio)
    folder = None if checkpoint_folder is None else Path(checkpoint_folder)
    with make_executor(executor, jobs, address) as where:
        plan = make_plan(
            where.survey(files, progress),
            named,
            estimators=estimators,
            reference=reference,
            logging=logging,
            seed=seed,
            replay=replay,
            max_ratio=max_ratio,
            min_propensity=min_propensity,
            constant_values=constant_values,
        )
        evaluator = Evaluator(plan)
        arguments = (plan.estimators, reference, seed, replay, max_ratio, min_propensity, constant_values)
        fingerprint = _fingerprint(files, {**named, LOGGED: logging}, arguments)
        if folder is not None:
            checkpoint.load(folder, evaluator, fingerprint)
        saved_at = time.monotonic()
        for share in where.run(evaluator, files, plan.reader):
            if progress is not None:
                progress("evaluating", share)
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
    to: Literal["jsonl", "vw", "dsjson"] = "jsonl",
    format: str | None = None,  # noqa: A002 (the built-in is not used here)
    columns: LogColumns | None = None,
    default_reward: float | None = None,
) -> Survey:
    """Convert a log to JSON lines with one decision each, or to a Vowpal Wabbit format.

    All formats keep the features of arms. In Vowpal Wabbit text, arms with features are lines of a block,
    tagged with their names; other arms are numbered from 1, in the order of ``arms`` of the result. Only
    ``dsjson`` can hold rankings.

    Parameters
    ----------
    log : str or path
        A log in any format that :func:`evaluate` reads.
    out : str or path
        The file to write. It is replaced atomically.
    to : {"jsonl", "vw", "dsjson"}
        The format to write.
    format : str, optional
        The format of the log. Default: detected.
    columns : LogColumns, optional
        Columns of a table.
    default_reward : float, optional
        Reward to assume where the log has none.

    Returns
    -------
    Survey
        What was converted, and which rows were rejected.
    """
    if to not in ("jsonl", "vw", "dsjson"):
        raise InvalidSettings(f"to must be jsonl, vw or dsjson, got {to!r}")
    path, target = Path(log), Path(out)
    if target.exists() and path.exists() and target.samefile(path):
        raise InvalidSettings(f"{out} is the log itself: name another file")
    layout = Layout(columns or LogColumns(), default_reward)
    survey = survey_rows(formats.read(path, format, layout), str(path))
    arms, index = find_arms(survey)
    if survey.slots > 1 and to != "dsjson":
        raise LogError(f"{log} has rankings, which {to} cannot hold: convert it to dsjson")
    if to != "jsonl" and survey.without_propensity:
        raise LogError(
            f"{survey.without_propensity:,} decisions of {log} have no propensity, which {to} needs"
        )
    rows = (row.decision for row in formats.read(path, format, layout) if row.decision is not None)
    if to == "jsonl":
        lines: Iterable[str] = map(_json_line, rows)
    else:
        lines = {"vw": vowpal_wabbit.write, "dsjson": dsjson.write}[to](rows, index)
    try:
        with atomic_write(target) as file:
            for line in lines:
                file.write(line.encode())
    except OSError as error:
        raise LogError(f"cannot write {out}: {error.strerror or error}") from error
    survey.arms = count_arms(survey, arms)
    return survey


def _json_line(decision: LoggedDecision) -> str:
    values: dict[str, Any] = {
        "context": plain_context(decision.context),
        "arm": decision.arm,
        "reward": decision.reward,
        **({"propensity": decision.propensity} if decision.propensity else {}),
    }
    if decision.features is not None:
        features = {arm: plain_context(own) for arm, own in decision.features.items()}
        values["arms"] = [{"arm": arm, "features": own} for arm, own in features.items()]
        values["arm_features"] = features.get(decision.arm)
    if decision.eligible is not None and decision.eligible != tuple(decision.features or ()):
        values["eligible"] = list(decision.eligible)
    return json.dumps(values, ensure_ascii=False) + "\n"


def survey(
    log: str | PathLike[str] | Sequence[str | PathLike[str]],
    *,
    format: str | None = None,  # noqa: A002 (the built-in is not used here)
    context_column: str = LogColumns.context,
    arm_column: str = LogColumns.arm,
    reward_column: str = LogColumns.reward,
    propensity_column: str = LogColumns.propensity,
    ignore_columns: Collection[str] = (),
    default_reward: float | None = None,
) -> Survey:
    """Return the arms of a log and the range of its rewards. Takes the arguments of `evaluate`."""
    columns = LogColumns(context_column, arm_column, reward_column, propensity_column, tuple(ignore_columns))
    files = LogFiles(_paths(log), format, Layout(columns, default_reward))
    found = LocalLogExecutor().survey(files, None)
    found.arms = count_arms(found, find_arms(found)[0])
    return found


# ---- arguments --------------------------------------------------------------------------------------


def check_arguments(
    policies: Mapping[str, object],
    reference: str,
    logging: object,
    max_ratio: float | None,
) -> None:
    """Raise InvalidSettings or MissingExtra if an argument is invalid, regardless of the log."""
    if not policies:
        raise InvalidSettings("name at least one policy to evaluate")
    if LOGGED in policies:
        raise InvalidSettings(f"{LOGGED!r} is the policy that wrote the log: choose another name")
    if reference != LOGGED and reference not in policies:
        raise InvalidSettings(f"reference must be {LOGGED!r} or one of the policies, got {reference!r}")
    if logging not in (None, "uniform") and not isinstance(logging, Frozen) and not callable(logging):
        raise InvalidSettings(f"logging must be 'uniform', Frozen(bandit) or a function, got {logging!r}")
    if max_ratio is not None and not max_ratio >= 1:
        raise InvalidSettings(f"max_ratio must be at least 1, got {max_ratio!r}")
    for policy in policies.values():
        name = policy.get_params()["policy"] if isinstance(policy, Bandit) else policy
        if name in registry.names():
            registry.require_packages(name)


def _check_estimators(chosen: Sequence[str], survey: Survey, logging: object) -> None:
    names = estimators.NAMES if survey.slots == 1 else estimators.RANKING_NAMES
    if not chosen or any(name not in names for name in chosen):
        kind = "decisions" if survey.slots == 1 else "rankings"
        raise InvalidSettings(
            f"estimators must be among {', '.join(names)} for a log of {kind}, got {list(chosen)}"
        )
    if "iips" in chosen and logging is None:
        raise InvalidSettings(
            "iips needs marginal propensities, and the log has conditional ones, given the slots above: "
            "pass the policy that wrote the log as logging=, or use rips"
        )


def make_plan(
    survey: Survey,
    policies: Mapping[str, Policy],
    *,
    estimators: Sequence[str] | None,
    reference: str,
    logging: object,
    seed: int,
    replay: bool,
    max_ratio: float | None,
    min_propensity: float | None,
    constant_values: bool,
) -> EvaluationPlan:
    """Return what to evaluate on a log after its first pass. Takes the arguments of `evaluate`."""
    default = DEFAULT_ESTIMATORS if survey.slots == 1 else RANKING_ESTIMATORS
    chosen = default if estimators is None else tuple(estimators)
    _check_estimators(chosen, survey, logging)
    notes = []
    if logging == "uniform":
        survey.without_propensity = 0
        notes.append("Assumed uniform logging, as requested.")
    modeled = survey.without_propensity == survey.rows
    if modeled and set(chosen) != {"dm"}:
        raise InvalidInput(
            "the log has no propensities, so it does not say what other arms would have earned. Name the "
            "column of the propensities, or, if the arms were chosen uniformly at random, pass "
            "logging='uniform' (--logging uniform). Only the direct method, estimators=['dm'] "
            "(--estimators dm), works without propensities, but is only as good as its model"
        )
    if survey.without_propensity and not modeled:
        survey.refused["missing propensity"] = survey.without_propensity
        survey.examples["missing propensity"] = "decisions without the probability of their arm"
        survey.rows -= survey.without_propensity
    for policy in policies.values():
        own = policy.bandit if isinstance(policy, Frozen) else policy
        for arm in own.arms if isinstance(own, Bandit) else ():
            if arm not in survey.arms and str(arm) not in survey.arms:
                survey.arms[arm] = 0
    arms, index = find_arms(survey)
    survey.arms = count_arms(survey, arms)
    targets: dict[str, Target] = {}
    replays: dict[str, BanditTarget] = {}
    for name, policy in policies.items():
        resolved = _resolve(policy, arms, survey, seed) if isinstance(policy, str) else policy
        if isinstance(resolved, Bandit):
            _check_bandit(name, resolved, survey)
            targets[name] = BanditTarget(resolved, arms, learns=True)
            if survey.slots == 1 and not modeled:
                replays[name] = BanditTarget(resolved, arms, learns=True)
        else:
            targets[name] = _fixed(name, resolved, arms, index, survey)
    wrote: Target | None = None
    if "iips" in chosen:
        wrote = UniformTarget() if logging == "uniform" else _fixed("logging", logging, arms, index, survey)
    if survey.slots > 1:
        notes += _ranking_notes(chosen, targets, len(arms), survey.slots)
    smallest = 1 / len(arms) if logging == "uniform" else survey.smallest_propensity
    if min_propensity is not None and not 0 < min_propensity <= smallest:
        raise InvalidSettings(
            "min_propensity must be in (0, 1] and at most the smallest propensity of the log, which is "
            f"{smallest:g}, got {min_propensity!r}"
        )
    return EvaluationPlan(
        arms=arms,
        index=index,
        survey=survey,
        targets=targets,
        replays=replays if replay else {},
        estimators=chosen,
        reference=reference,
        seed=seed,
        max_ratio=max(1 / smallest, 1.0) if max_ratio is None else max_ratio,
        min_propensity=smallest if min_propensity is None else min_propensity,
        constant_values=constant_values,
        uniform=logging == "uniform",
        modeled=modeled,
        logging=wrote,
        notes=notes,
    )


def _fixed(name: str, policy: Any, arms: tuple[Arm, ...], index: Mapping[Arm, int], survey: Survey) -> Target:
    """Return the target of a policy, unless it is a learning bandit."""
    if isinstance(policy, Frozen):
        _check_bandit(name, policy.bandit, survey)
        return BanditTarget(policy.bandit, arms, learns=False)
    return policy if isinstance(policy, UniformTarget) else RuleTarget(policy, index, name)


def _ranking_notes(
    chosen: Sequence[str], targets: Mapping[str, Target], arms: int, slots: int
) -> Iterator[str]:
    """Yield the assumptions of the ranking estimators; reject policies that they cannot evaluate."""
    yield "The value of a policy is the sum of the rewards of all slots, per ranking."
    if "rips" in chosen:
        yield (
            "rips and the intervals at any time assume that the reward of a slot does not depend on the "
            "slots below it. Without rips among the estimators, the intervals assume nothing, and are wider."
        )
    if "iips" not in chosen:
        return
    for name, target in targets.items():
        if target.learns:
            raise InvalidSettings(f"iips needs policies that do not learn, and {name!r} does: use rips")
    yield "iips assumes that the reward of a slot depends on nothing but its own arm and its position."
    if marginals.is_exact(arms, slots):
        yield "The marginal propensities of iips are exact."
    else:
        yield (
            f"The marginal propensities of iips are means over {marginals.SIMULATIONS:,} simulated rankings, "
            "except where there are few arms to choose from."
        )


def _resolve(name: str, arms: tuple[Arm, ...], survey: Survey, seed: int) -> Bandit | UniformTarget:
    """Return the policy for a string."""
    if name == "uniform":
        return UniformTarget()
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
    return Bandit({} if survey.shares_arms else arms, policy=name, rewards=survey.rewards, seed=seed)


def _check_bandit(name: str, bandit: Bandit, survey: Survey) -> None:
    slots = bandit.get_params()["slots"]
    if 1 < slots < survey.slots:
        raise InvalidInput(
            f"the bandit {name!r} ranks {slots} slots, the log has {survey.slots}: create it with "
            f"slots={survey.slots}"
        )
    if isinstance(bandit.get_params()["arms"], Mapping) and not bandit.arms and not survey.shares_arms:
        raise InvalidInput(
            f"the bandit {name!r} has no arms, and the log has no arm features: create it "
            "with arms={name: {feature: value}}"
        )
    low, high = reward_range(bandit.get_params()["rewards"])
    if survey.lowest < low or survey.highest > high:
        raise InvalidInput(
            f"the bandit {name!r} takes rewards from {low:g} to {high:g}, the log has {survey.lowest:g} to "
            f"{survey.highest:g}: create it with rewards=({survey.lowest:g}, {survey.highest:g})"
        )


def _paths(log: str | PathLike[str] | Sequence[str | PathLike[str]]) -> tuple[Path, ...]:
    return tuple(map(Path, [log] if isinstance(log, str | PathLike) else log))


def _fingerprint(log: LogFiles, policies: Mapping[str, object], arguments: Sequence[object]) -> str:
    """Identify an evaluation by its log, policies, arguments and version of glcb."""
    files = [(str(path.absolute()), path.stat().st_size, path.stat().st_mtime_ns) for path in log.paths]
    described = {name: _described(policy) for name, policy in policies.items()}
    text = repr((__version__, files, log.format, log.layout, described, arguments))
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def _described(policy: object) -> str:
    """Return a text that identifies a policy; for bandits, including what they have learned."""
    bandit = policy.bandit if isinstance(policy, Frozen) else policy
    if not isinstance(bandit, Bandit):
        return repr(policy)
    digest = hashlib.blake2b(digest_size=16)
    for chunk in _model_file.chunks(bandit._snapshot()):
        digest.update(chunk)
    return f"{type(policy).__name__} {digest.hexdigest()}"
