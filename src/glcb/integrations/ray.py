"""Ray: score datasets with a bandit, and train several bandits on logs in parallel."""

from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from glcb import Bandit
from glcb._errors import InvalidInput, InvalidSettings, LogError, MissingExtra, NotSupported, install_command
from glcb._ray import TaskFailure, check_jobs, connected, require_files, run_tasks
from glcb._types import Arm
from glcb._version import __version__
from glcb.bandit.logs import LogColumns, LogReport
from glcb.bandit.offline import OfflineBandit

try:
    import pandas  # noqa: F401 (Ray needs it for datasets, and says so only when one is read)
    import pyarrow
    import ray
    from ray import cloudpickle
    from ray.data import ActorPoolStrategy, Dataset
except ModuleNotFoundError as error:
    raise MissingExtra(f"this module needs {error.name}: {install_command('ray')}") from error

if TYPE_CHECKING:
    from glcb.bandit.offline import Preview

__all__ = ["TrainedBandit", "learn_many", "score"]

_ADDED = ("arm", "propensity", "values", "probabilities")
_BATCH = 1024
"""Rows per batch: enough to hide the cost of a call, and few enough to limit memory."""


def score(
    dataset: Dataset,
    bandit: Bandit | str | PathLike[str],
    *,
    key: str | None = None,
    seed: int = 0,
    eligible: Iterable[Arm] | None = None,
    ignore_columns: Collection[str] = (),
    workers: int | None = None,
) -> Dataset:
    """Choose an arm for every row of a dataset, as the next decision of the bandit would.

    The bandit does not change, and no decision is pending. The result does not depend on the number of
    workers, on the blocks of the dataset, or on the order of the rows.

    Parameters
    ----------
    dataset : ray.data.Dataset
        One context per row.
    bandit : Bandit, str or path
        The bandit, or a model file on this machine. It is sent to the workers, which load it once.
    A column that identifies rows, such as a user id; it is not a feature. With it, an arm is drawn with
    the bandit's probabilities; the same key and seed give the same random number. Without it, the arm with
    the largest value is chosen, without exploration.
    seed : int, default 0
        Seed of the random numbers.
    eligible : iterable of str or int, optional
        The arms to choose from, for all rows. Default: all.
    ignore_columns : collection of str
        Columns that are not features.
    workers : int, optional
        Number of processes. Default: as many as the cluster has cores for.

    Returns
    -------
    ray.data.Dataset
        The dataset with the columns ``arm``, ``propensity``, ``values`` and ``probabilities``. The last two
        are lists in the order of ``Bandit.arms``, or of the eligible candidates if arms have features. The
        dataset is computed when it is read.

    Raises
    ------
    InvalidInput
        If the dataset lacks the key column, or already has one of the added columns; when it is read, if a
        row has no key.
    NotSupported
        If the policy draws random numbers for its values, the bandit makes rankings, or its arms mix text and
        integers.
    UnknownArm
        If an eligible arm does not exist.
    """
    loaded = bandit if isinstance(bandit, Bandit) else Bandit.load(bandit)
    scorer = _Scorer(loaded, key, seed, eligible, ignore_columns)
    columns = dataset.columns() or []
    for name in _ADDED:
        if name in columns:
            raise InvalidInput(f"the dataset has a column {name!r}, which this adds: drop or rename it")
    for name in (*([] if key is None else [key]), *ignore_columns):
        if name not in columns:
            raise InvalidInput(f"the dataset has no column {name!r}; it has {', '.join(columns)}")
    return dataset.map_batches(
        _Worker,
        fn_constructor_args=(__version__, ray.put(cloudpickle.dumps(scorer))),
        batch_format="pyarrow",
        batch_size=_BATCH,
        compute=ActorPoolStrategy(size=workers) if workers is not None else None,
        num_cpus=1,
        udf_modifying_row_count=False,
    )


class _Scorer:
    """Chooses arms for batches of rows."""

    def __init__(
        self,
        bandit: Bandit,
        key: str | None,
        seed: int,
        eligible: Iterable[Arm] | None,
        ignore_columns: Collection[str],
    ) -> None:
        self._bandit = OfflineBandit(bandit)
        self._key, self._seed = key, seed
        self._eligible = None if eligible is None else tuple(eligible)
        self._ignored = {*ignore_columns, key}
        if bandit.get_params()["slots"] > 1:
            raise NotSupported(
                "this bandit makes rankings, and a dataset is scored by single decisions: call Bandit.rank "
                "for each row, or use a bandit without slots"
            )
        if self._bandit.is_randomized:
            policy = bandit.get_params()["policy"]
            raise NotSupported(
                f"the policy {policy!r} draws random numbers for its values, so the result would depend on "
                "the order of the rows: use a policy that does not, such as glcb or linucb"
            )
        self._bandit.check_eligible(self._eligible)
        if len({type(arm) for arm in self._eligible or bandit.arms}) > 1:
            raise NotSupported(
                "the arms of this bandit are both text and integers, and a column has one type: use a bandit "
                "whose arms are all text"
            )

    def add_columns(self, batch: pyarrow.Table) -> pyarrow.Table:
        """Return a batch with the added columns."""
        chosen = [self._choose(row) for row in batch.to_pylist()]
        for name, values in zip(_ADDED, zip(*chosen, strict=True), strict=True):
            batch = batch.append_column(name, pyarrow.array(values))
        return batch

    def _choose(self, row: Mapping[str, Any]) -> tuple[Arm, float, Any, Any]:
        context = {name: value for name, value in row.items() if name not in self._ignored}
        preview = self._bandit.preview(context, self._eligible)
        arm, propensity = self._best(preview), 1.0
        if self._key is not None:
            key = row[self._key]
            if key is None or key != key:  # a missing number can be NaN
                raise InvalidInput(f"a row has no {self._key!r}: drop such rows, or give each of them a key")
            arm = _drawn(preview.probabilities, self._seed, key)
            propensity = float(preview.probabilities[arm])
        return preview.arms[arm], propensity, preview.values, preview.probabilities

    def _best(self, preview: "Preview") -> int:
        if self._eligible is None:
            return int(np.argmax(preview.values))
        possible = [arm in self._eligible for arm in preview.arms]
        return int(np.argmax(np.where(possible, preview.values, -np.inf)))


def _drawn(probabilities: Any, seed: int, key: object) -> int:
    """Return the arm that a key is assigned to; the same key and seed give the same random number."""
    digest = blake2b(f"{seed}\0{type(key).__name__}\0{key}".encode(), digest_size=8).digest()
    point = int.from_bytes(digest) / 2**64 * float(probabilities.sum())
    arm = int(np.searchsorted(np.cumsum(probabilities), point, side="right"))
    return min(arm, int(np.flatnonzero(probabilities)[-1]))  # rounding can put the point past the end


class _Worker:
    """Loads the model once per process."""

    def __init__(self, version: str, scorer: Any) -> None:
        if version != __version__:
            raise InvalidSettings(f"a node has glcb {__version__}: install glcb {version} there")
        self._scorer: _Scorer = cloudpickle.loads(ray.get(scorer))

    def __call__(self, batch: pyarrow.Table) -> pyarrow.Table:
        return self._scorer.add_columns(batch)


# ---- learning ---------------------------------------------------------------------------------------


class TrainedBandit(NamedTuple):
    """A trained bandit, and the report for each log."""

    bandit: Bandit
    reports: tuple[LogReport, ...]


Logs = str | PathLike[str] | Sequence[str | PathLike[str]]


def learn_many(
    bandits: Mapping[str, Bandit],
    logs: Logs | Mapping[str, Logs],
    *,
    format: str | None = None,  # noqa: A002 (the built-in is not used here)
    context_column: str = LogColumns.context,
    arm_column: str = LogColumns.arm,
    reward_column: str = LogColumns.reward,
    propensity_column: str = LogColumns.propensity,
    ignore_columns: Collection[str] = (),
    address: str | None = None,
    jobs: int | None = None,
) -> dict[str, TrainedBandit]:
    """Train several bandits on logs in parallel, such as one bandit per setting.

    A bandit learns from its logs in order, in one thread. The result equals ``Bandit.learn_from`` for one log
    after the other, in a process with one BLAS thread. If a process or a node dies, the log is learned again
    elsewhere, from the previous state of the bandit.

    Parameters
    ----------
    bandits : dict
        Bandits by name. They do not change.
    logs : str, path, list of them, or dict
        The logs for all bandits, or for each bandit by name. Every node must have them under the same paths:
        nothing is copied.
    format, context_column, arm_column, reward_column, propensity_column, ignore_columns
        As for ``Bandit.learn_from``.
    address : str, optional
        Address of the Ray cluster, unless this process is connected to one. Default: the environment variable
        ``RAY_ADDRESS``, or an instance of Ray on this machine.
    jobs : int, optional
        Maximum number of processes. Default: one per core.

    Returns
    -------
    dict
        A trained copy of each bandit, by name, with a report for each of its logs.

    Raises
    ------
    LogError
        If a log cannot be read, or a node does not have it.
    InvalidInput
        If a bandit has no logs, or ``jobs`` is less than 1.
    """
    check_jobs(jobs)
    files = {name: _paths(logs, name) for name in bandits}
    columns = {
        "format": format,
        "context_column": context_column,
        "arm_column": arm_column,
        "reward_column": reward_column,
        "propensity_column": propensity_column,
        "ignore_columns": tuple(ignore_columns),
    }
    models: dict[str, bytes] = {}
    reports: dict[str, list[LogReport]] = {name: [] for name in bandits}
    with connected(address, cores=jobs):
        require_files(sorted({path for own in files.values() for path in own}))
        queue = deque(
            _LearnTask(name, files[name], cloudpickle.dumps(bandit), columns)
            for name, bandit in bandits.items()
        )
        for task, outcome in run_tasks(_learn, queue, jobs):
            if isinstance(outcome, TaskFailure):
                raise outcome.error or LogError(f"{task.name} cannot learn {task.logs[0]}: {outcome.reason}")
            models[task.name], report = outcome
            reports[task.name].append(report)
            if task.logs[1:]:
                queue.append(replace(task, logs=task.logs[1:], bandit=models[task.name]))
    return {
        name: TrainedBandit(_restored(models[name], bandit), tuple(reports[name]))
        for name, bandit in bandits.items()
    }


@dataclass(frozen=True)
class _LearnTask:
    """Logs for a bandit; a task learns the first log."""

    name: str
    logs: tuple[Path, ...]
    bandit: bytes
    """The pickled bandit. Ray's own way to pass arrays makes them read-only."""
    columns: Mapping[str, Any]


def _learn(task: _LearnTask) -> tuple[bytes, LogReport]:
    bandit: Bandit = cloudpickle.loads(task.bandit)
    report = bandit.learn_from(task.logs[0], **task.columns)
    return cloudpickle.dumps(bandit), report


def _paths(logs: Logs | Mapping[str, Logs], name: str) -> tuple[Path, ...]:
    own = logs.get(name, ()) if isinstance(logs, Mapping) else logs
    paths = tuple(Path(log).absolute() for log in ([own] if isinstance(own, str | PathLike) else own))
    if not paths:
        raise InvalidInput(f"there are no logs for the bandit {name!r}")
    return paths


def _restored(model: bytes, like: Bandit) -> Bandit:
    """Return a bandit with the clock of another bandit; clocks are not sent to other processes."""
    bandit: Bandit = cloudpickle.loads(model)
    return bandit.set_params(clock=like.get_params()["clock"])
