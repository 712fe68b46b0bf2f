"""The bandit for applications: contexts of any form, named arms, exact propensities."""

import os
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any, Self

from glcb import _model_file
from glcb._errors import InvalidInput, InvalidSettings, ModelFileError
from glcb._model_file import Snapshot
from glcb._types import Arm, ExplorationMode, Rewards
from glcb.bandit import display
from glcb.bandit._core import BanditCore, RewardCallback
from glcb.bandit.access import changes, reads
from glcb.bandit.config import MUTABLE, BanditConfig, Clock, RewardAggregation
from glcb.bandit.decision import BanditDecision
from glcb.bandit.encoding.schema import Schema
from glcb.bandit.encoding.values import to_contexts
from glcb.bandit.logs.format import LogColumns
from glcb.bandit.logs.replay import LogReplay, LogReport, Progress
from glcb.bandit.logs.writer import LogWriter
from glcb.bandit.ranking import Ranking
from glcb.explain import Explanation


class Bandit:
    """Chooses between named arms for contexts of any form, and learns from the rewards.

    All methods are thread-safe. A call with invalid input raises an error and changes nothing. After a change
    that was interrupted, as with Ctrl-C, all methods raise :class:`NotSupported`: load a saved bandit, or
    continue with ``copy.copy(bandit)``, in which the effect of the interrupted call may be incomplete.

    Parameters
    ----------
    arms : int, list of str or int, or dict
        The arms to choose from: a list of names, or a number of arms named 0, 1, 2, …, or the features of
        each arm by name.
    policy : str, default "glcb"
        Name of the policy that estimates the value of each arm. `glcb policies` lists all names.
    policy_settings : dict, default None
        Settings of the policy, by name.
    rewards : "binary" or (float, float), default "binary"
        The range of rewards: "binary" for 0 or 1, or (low, high).
    exploration : float, default 0.05
        Probability of choosing an arm other than the one with the best score.
    exploration_mode : "gap" or "uniform", default "gap"
        How exploration is divided: "gap" prefers arms with scores close to the best, "uniform" has
        no preference.
    schema : dict, default None
        Declared features, by name: a kind, a range, a list of categories, or the JSON form of one of these.
        Others are inferred.
    spare_slots : int, default None
        Number of slots for values and features that appear later. By default it depends on the first context.
    arm_schema : dict, default None
        Declared features of arms, like `schema`. Only for arms with features.
    slots : int, default 1
        Number of positions of a ranking. If it is more than 1, the position is a feature.
    max_pending : int, default 10000
        Number of decisions that can be pending. When there are more, the oldest is evicted.
    reward_timeout : float, default None
        Seconds a decision stays pending. None means no limit.
    default_reward : float, default None
        Reward assumed when none arrives. If None, nothing is learned then. Requires `reward_timeout`. Real
        and assumed rewards are learned at the same age, at the latest at the timeout.
    reward_aggregation : "first", "last", "max" or "sum", default "first"
        How several rewards of one decision are combined. All but "first" require `reward_timeout` and are
        learned when it has passed; "sum" is clipped to the range of rewards.
    clock : function, default time.time
        Function that returns the time in seconds.
    half_life : int, default None
        Number of decisions after which evidence counts half as much. None disables forgetting.
    seed : int, default 0
        Seed of all random numbers.
    shares : dict, default None
        Lowest and highest probability of arms in every decision, by name; in a ranking, of the first slot.

    Raises
    ------
    InvalidSettings
        If an argument is invalid or conflicts with another.
    NotSupported
        If `half_life` is set and the policy cannot forget.

    Examples
    --------
    >>> bandit = Bandit(arms=["sports", "news", "games"])
    >>> decision = bandit.decide({"country": "FR", "age": 31, "hour": 14})
    >>> decision.arm in bandit.arms, sum(decision.probabilities.values())
    (True, 1.0)
    >>> bandit.reward(decision.id, 1.0)
    True
    """

    def __init__(
        self,
        arms: int | Sequence[Arm] | Mapping[Any, Mapping[str, Any]],
        *,
        policy: str = BanditConfig.policy,
        policy_settings: Mapping[str, Any] | None = BanditConfig.policy_settings,
        rewards: Rewards = BanditConfig.rewards,
        exploration: float = BanditConfig.exploration,
        exploration_mode: ExplorationMode = BanditConfig.exploration_mode,
        schema: Mapping[str, Any] | None = BanditConfig.schema,
        spare_slots: int | None = BanditConfig.spare_slots,
        arm_schema: Mapping[str, Any] | None = BanditConfig.arm_schema,
        slots: int = BanditConfig.slots,
        max_pending: int = BanditConfig.max_pending,
        reward_timeout: float | None = BanditConfig.reward_timeout,
        default_reward: float | None = BanditConfig.default_reward,
        reward_aggregation: RewardAggregation = BanditConfig.reward_aggregation,
        clock: Clock = BanditConfig.clock,
        half_life: int | None = BanditConfig.half_life,
        seed: int = BanditConfig.seed,
        shares: Mapping[Any, tuple[float, float]] | None = BanditConfig.shares,
    ) -> None:
        params: dict[str, Any] = {
            "arms": tuple(arms) if isinstance(arms, Iterator) else arms,  # it can be read only once
            "policy": policy,
            "policy_settings": policy_settings,
            "rewards": rewards,
            "exploration": exploration,
            "exploration_mode": exploration_mode,
            "schema": schema,
            "spare_slots": spare_slots,
            "arm_schema": arm_schema,
            "slots": slots,
            "max_pending": max_pending,
            "reward_timeout": reward_timeout,
            "default_reward": default_reward,
            "reward_aggregation": reward_aggregation,
            "clock": clock,
            "half_life": half_life,
            "seed": seed,
            "shares": shares,
        }
        self._start(BanditCore(BanditConfig(**params)), params)

    def _start(self, core: BanditCore, params: dict[str, Any]) -> None:
        self._lock, self._core, self._params = threading.RLock(), core, params
        self._process, self._is_interrupted = os.getpid(), False

    # ---- deciding and learning ------------------------------------------------------------------

    @changes
    def decide(
        self,
        context: Any,
        *,
        arms: Any = None,
        eligible: Iterable[Arm] | None = None,
        uniform: bool = False,
        offsets: Mapping[Any, float] | None = None,
        serve: Arm | None = None,
        id: str | None = None,  # noqa: A002 (the name of the attribute of a decision)
    ) -> BanditDecision:
        """Choose an arm for a context. The decision is pending until its reward arrives.

        Parameters
        ----------
        context : dict, row of a data frame, named tuple, list or array
            The values of the features.
        arms : dict, optional
            The candidates of this request: the features of each, by name. New names are fine. Default: the
            catalog. Only for bandits whose arms have features.
        eligible : iterable of str or int, optional
            The arms to choose from, among the candidates. Default: all.
        uniform : bool, default False
            Choose each eligible arm with the same probability, as for a control group.
        offsets : dict, optional
            Numbers to add to the scores of arms, such as minus their costs. Nothing is learned from them.
        serve : str or int, optional
            An eligible arm that another system has chosen. The decision has this arm, with the propensity 1.
            Its rewards are learned like any other.
        id : str, optional
            The id of the decision: 1 to 100 characters from A–Z, a–z, 0–9, ``_`` and ``-``.

        Returns
        -------
        BanditDecision
            The arm, the id for its reward, and the probability of each arm.

        Raises
        ------
        InvalidContext
            If `context` has none of these forms, or does not match earlier contexts.
        InvalidInput
            If there are no candidates, the features of one are not a dict, or an offset is not a number.
        UnknownArm
            If `eligible` is empty, or `eligible` or `offsets` names an arm that is not a candidate.
        DuplicateDecision
            If the id belongs to a pending decision, or to one of the last `max_pending` closed decisions.
        LogError
            If there is a log and it cannot be written.
        """
        chosen = self._core.decide(
            context,
            1,
            arms=arms,
            eligible=eligible,
            uniform=uniform,
            offsets=offsets,
            serve=() if serve is None else (serve,),
            chosen_id=id,
        )
        [(arm, propensity, probabilities, estimates)] = chosen.slots
        return BanditDecision(
            chosen.names[arm], chosen.names, estimates, chosen.id, propensity, probabilities, chosen.sampled
        )

    @changes
    def rank(
        self,
        context: Any,
        *,
        k: int,
        arms: Any = None,
        eligible: Iterable[Arm] | None = None,
        uniform: bool = False,
        serve: Sequence[Arm] = (),
        id: str | None = None,  # noqa: A002 (the name of the attribute of a ranking)
    ) -> Ranking:
        """Choose `k` different arms for a context, in order. Each slot is pending until its reward arrives.

        Parameters
        ----------
        context : dict, row of a data frame, named tuple, list or array
            The values of the features.
        k : int
            Number of slots.
        arms, eligible, uniform, id
            As for :meth:`decide`.
        serve : sequence of str or int
            Arms that another system has chosen for the first slots.

        Returns
        -------
        Ranking
            The arms, one id for their rewards, and the propensity of every slot, given the slots above it.

        Raises
        ------
        InvalidInput
            If `k` is larger than the number of candidates, or than `slots` if positions are features.
        InvalidContext, UnknownArm, DuplicateDecision, LogError
            As for :meth:`decide`.

        Examples
        --------
        >>> bandit = Bandit(arms={"m17": {"genre": "noir"}, "m4": {"genre": "comedy"}, "m9": {}})
        >>> ranking = bandit.rank({"age": 31}, k=2)
        >>> len(ranking.arms), bandit.reward(ranking.id, 1, slot=1, examined=2)
        (2, True)
        """
        names, ranking_id, slots, sampled = self._core.decide(
            context, k, arms=arms, eligible=eligible, uniform=uniform, serve=serve, chosen_id=id
        )
        return Ranking(
            tuple(names[slot.chosen] for slot in slots),
            ranking_id,
            tuple(slot.propensity for slot in slots),
            names,
            tuple(slot.probabilities for slot in slots),
            tuple(slot.estimates for slot in slots),
            sampled,
        )

    @changes
    def decide_many(self, contexts: Any, *, eligible: Iterable[Arm] | None = None) -> list[BanditDecision]:
        """Choose an arm for each of many contexts.

        Equivalent to calling :meth:`decide` for each context in order. All contexts are checked first: if one
        is invalid, no decision is made. If the log cannot be written, earlier decisions remain.

        Parameters
        ----------
        contexts : pandas or Polars frame, 2-D array, or iterable of contexts
            One context per row.
        eligible : iterable of str or int, optional
            The arms to choose from, for all contexts. Default: all.

        Returns
        -------
        list of BanditDecision
            One decision per context, in the same order.

        Raises
        ------
        InvalidContext
            If a context is invalid. The message contains its row number, starting at 0.
        UnknownArm, LogError
            As for :meth:`decide`.

        Examples
        --------
        >>> bandit = Bandit(arms=["sports", "news"])
        >>> decisions = bandit.decide_many([{"age": 31}, {"age": 45}])
        >>> [decision.arm in bandit.arms for decision in decisions]
        [True, True]
        """
        rows = to_contexts(contexts)
        self._core.check_contexts(rows)
        return [self.decide(row, eligible=eligible) for row in rows]

    @changes
    def reward(
        self,
        decision: str,
        value: float,
        *,
        slot: int | None = None,
        examined: int | None = None,
        idempotency_key: str | int | None = None,
    ) -> bool:
        """Learn the reward of a pending decision.

        With a default reward, or an aggregation other than "first", the reward is recorded now and learned
        later.

        Parameters
        ----------
        decision : str
            The id of the decision or the ranking.
        value : float
            The reward.
        slot : int, optional
            The slot of a ranking, from 0. Default: the reward is for the whole ranking, and every slot
            that was examined learns it.
        examined : int, optional
            Number of slots that the user saw. Completes a ranking: seen slots without a reward learn the
            default or the lowest reward; nothing is learned from unseen slots.
        idempotency_key : str or int, optional
            Makes retries safe: of several rewards of one decision with the same key, only the first counts.

        Returns
        -------
        bool
            False if the decision already had a reward with this key, else True.

        Raises
        ------
        InvalidReward
            If `value` is outside the range of rewards.
        UnknownDecision
            If no decision of this bandit has this id.
        ClosedDecision
            If the decision timed out, was evicted, or its arm was removed.
        DuplicateReward
            If the decision has already been rewarded.
        LogError
            If there is a log and it cannot be written.
        """
        return self._core.reward(decision, value, slot, examined, idempotency_key)

    @changes
    def settle(self) -> bool:
        """Close all timed-out decisions. Without this call, the next decision or reward closes them.

        Returns
        -------
        bool
            Whether anything changed: a decision was closed, or its default reward was learned.
        """
        return self._core.settle(self._core.now())

    @changes
    def on_reward(self, callback: RewardCallback | None) -> None:
        """Call ``callback(id, arm, reward)`` once the reward of a decision is final; None removes it.

        The callback is called last. If it raises an exception, the reward has already been recorded.

        Parameters
        ----------
        callback : callable or None
            Called with the id of the decision, its arm and its reward.
        """
        self._core.on_reward = callback

    @reads
    def explain(
        self, context: Any, *, arms: Any = None, eligible: Iterable[Arm] | None = None
    ) -> Explanation:
        """Explain the value of every arm: the contribution of each feature, and the evidence.

        Nothing is learned or counted, and no random numbers are drawn. Contributions are relative to a
        context in which every number is in the middle of its scale and every boolean and category is unknown.

        Parameters
        ----------
        context : dict, row of a data frame, named tuple, list or array
            The values of the features.
        arms, eligible
            For arms with features, the candidates. All that are in `eligible` are explained; without it, the
            20 with the best scores.

        Returns
        -------
        Explanation
            The value of each arm, the contribution of each feature, and the evidence. ``print`` shows it.

        Raises
        ------
        InvalidContext
            If `context` is invalid, as for :meth:`decide`.
        NotSupported
            If the policy cannot explain its values.
        """
        return self._core.explain(context, arms, eligible, eligible is not None)

    # ---- arms -----------------------------------------------------------------------------------

    @changes
    def add_arm(
        self, name: Arm, *, like: Arm | None = None, features: Mapping[str, Any] | None = None
    ) -> None:
        """Add an arm.

        Parameters
        ----------
        name : str or int
            The name of the new arm.
        features : dict, optional
            Its features, if the arms of this bandit have features.
        like : str or int, optional
            An arm to copy. The new arm starts with its values, but with at most 64 decisions of evidence, so
            that it is explored. Default: the new arm is untrained.

        Raises
        ------
        InvalidSettings
            If `name` is invalid or in use.
        UnknownArm
            If there is no arm `like`.
        NotSupported
            If the arms of the policy cannot change.
        """
        self._core.add_arm(name, like, features)

    @changes
    def remove_arm(self, name: Arm) -> None:
        """Remove an arm and everything learned about it. Its pending decisions are closed.

        An arm with features only leaves the catalog: what was learned is shared, and its decisions remain.

        Parameters
        ----------
        name : str or int
            The name of the arm.

        Raises
        ------
        InvalidSettings
            If it is the only arm.
        UnknownArm
            If there is no such arm.
        NotSupported
            If the arms of the policy cannot change.
        """
        self._core.remove_arm(name)

    @changes
    def set_arms(self, arms: Mapping[Any, Mapping[str, Any]]) -> None:
        """Replace the catalog, for bandits whose arms have features. What was learned remains.

        Parameters
        ----------
        arms : dict
            The features of each arm, by name.

        Raises
        ------
        InvalidInput
            If the arms of this bandit have no features, or `arms` are invalid.
        """
        self._core.set_arms(arms)

    # ---- arguments and counts --------------------------------------------------------------------

    @property
    def arms(self) -> tuple[Arm, ...]:
        """The names of the arms."""
        return self._core.arms

    @reads
    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the arguments of an untrained bandit like this one, with the current arms.

        Parameters
        ----------
        deep : bool
            Ignored; accepted for compatibility with scikit-learn.

        Returns
        -------
        dict
            The arguments by name.
        """
        params = dict(self._params)
        core = self._core
        if core.catalog is not None:
            unchanged = core.catalog.arms == core.config.arm_features
            return params if unchanged else {**params, "arms": dict(core.catalog.arms)}
        if self.arms == core.config.arms:
            return params
        return {**params, "arms": self.arms, "shares": core.config.shares}

    @changes
    def set_params(self, /, **changes: Any) -> Self:
        """Change arguments.

        After the first decision, only ``exploration``, ``exploration_mode``, ``schema``, ``reward_timeout``,
        ``default_reward``, ``reward_aggregation``, ``half_life``, ``shares`` and ``clock`` can change. A
        feature whose kind is declared anew starts again; the number of slots stays the same, and pending
        decisions keep the encoding that they were made with. New rules for rewards apply to pending decisions
        without a reward; rewarded ones are settled. A timeout cannot be removed.

        Parameters
        ----------
        **changes
            New values of arguments, by name.

        Returns
        -------
        Bandit
            This bandit.

        Raises
        ------
        InvalidSettings
            If an argument does not exist, is invalid, or can no longer change; or if the schema needs more
            slots than there are.
        """
        params = self.get_params()
        for name in changes:
            if name not in params:
                raise InvalidSettings(f"Bandit has no parameter {name!r}; it has {', '.join(params)}")
            if self._core.has_started and name not in MUTABLE:
                raise InvalidSettings(
                    f"{name} cannot change after the first decision: create a new bandit with "
                    f"Bandit(**{{**bandit.get_params(), {name!r}: …}})"
                )
        if self._core.has_started:
            self._core.change(**changes)
            self._params.update(changes)
        else:
            untrained = type(self)(**{**params, **changes})
            self._core.reset(untrained._core.config)
            self._params = untrained._params
        return self

    @property
    @reads
    def schema(self) -> Schema | None:
        """The features and the problems with their values; None before the first decision."""
        encoder, catalog = self._core.encoder, self._core.catalog
        if encoder is None or catalog is None:
            return None if encoder is None else encoder.schema
        return replace(encoder.schema, arms=catalog.schema)

    @property
    @reads
    def counts(self) -> dict[str, int]:
        """Number of decisions, in total and by outcome: rewarded, timed_out, evicted, removed and pending."""
        return self._core.pending.counts

    @property
    @reads
    def reward_counts(self) -> dict[Arm, int]:
        """Number of rewards learned, for each arm."""
        policy, catalog = self._core.policy, self._core.catalog
        if catalog is not None:
            return catalog.reward_counts
        return dict.fromkeys(self.arms, 0) if policy is None else policy.reward_counts

    def __repr__(self) -> str:
        with self._lock:
            return display.to_line(self._core.arguments(), self._core.pending.counts)

    @reads
    def _repr_html_(self) -> str:
        return display.to_html(self._core.arguments(), self.counts, self.reward_counts, self.schema)

    # ---- logs ------------------------------------------------------------------------------------

    @changes
    def log_to(self, path: str | PathLike[str] | None) -> None:
        """Start writing every decision and reward to a log; None stops.

        The log is a file of JSON lines; new lines are appended, and :meth:`learn_from` reads it. A line is
        passed to the operating system before its event takes effect, so it survives a crash of the process,
        but not necessarily a crash of the machine. If a line cannot be written, the call raises ``LogError``,
        and neither the log nor the bandit changes. Changes to the arms are not logged. Copies and saved
        bandits do not write to the log.

        If an interrupt such as Ctrl-C ends a call, the log may be one event ahead: continue with a bandit
        that has replayed the log.

        Parameters
        ----------
        path : str, path or None
            The file to append to. It is created if it does not exist.

        Raises
        ------
        LogError
            If the file cannot be opened, is not a log of this format, or is in use by another bandit.
        """
        core = self._core
        if path is not None and core.log is not None and core.log.is_at(path):
            return
        before, core.log = core.log, None if path is None else LogWriter(path)
        self._core.log_arms()
        if before is not None:
            before.close()

    def learn_from(
        self,
        log: str | PathLike[str],
        *,
        format: str | None = None,  # noqa: A002 (the built-in is not used here)
        context_column: str = LogColumns.context,
        arm_column: str = LogColumns.arm,
        reward_column: str = LogColumns.reward,
        propensity_column: str = LogColumns.propensity,
        ignore_columns: Collection[str] = (),
        progress: Progress | None = None,
    ) -> LogReport:
        """Learn from a log as if this bandit had made its decisions. No random numbers are drawn.

        The log is either a file written by :meth:`log_to` or a table with one row per decision. It is read
        row by row. Rows that cannot be used are counted by reason and skipped.

        Decisions without a reward in the log are pending here. They have the same ids, unless this bandit
        already has decisions with these ids. After a crash, :meth:`load` the model and replay the log started
        when it was saved; this restores everything.

        Parameters
        ----------
        log : str or path
            JSON lines, CSV or Parquet. In CSV files, numbers are recognized and empty cells are missing.
        format : {"jsonl", "csv", "parquet"}, optional
            The format of the file. Default: inferred from its suffix.
        context_column : str, default "context"
            Column with the context as a JSON object. Without it, all remaining columns are features, except
            those called like fields of a log, such as ``id``, ``time`` and ``propensity``.
        arm_column : str, default "arm"
            Column with the chosen arm.
        reward_column : str, default "reward"
            Column with the reward.
        propensity_column : str, default "propensity"
            Column with the probability of the chosen arm; optional.
        ignore_columns : collection of str
            Columns that are not features.
        progress : callable, optional
            Called with the report so far, every 1,000 rows and at the end.

        Returns
        -------
        LogReport
            What was learned, and which rows were rejected.

        Raises
        ------
        LogError
            If the log cannot be read or has an old format. Rows before the failure have been learned; the
            ``report`` of the error says how many.
        InvalidSettings
            If the format is unknown.
        InvalidInput
            If this bandit is writing to the log.
        MissingExtra
            If the log is a Parquet file and pyarrow is not installed.
        """
        columns = LogColumns(
            context_column, arm_column, reward_column, propensity_column, tuple(ignore_columns)
        )
        with self._lock:
            core = self._core
            if core.log is not None and core.log.is_at(log):
                raise InvalidInput(f"this bandit is writing to {log}: stop it first with log_to(None)")
            replay = LogReplay(self._core, self._replay, columns, core.config.max_pending)
        return replay.run(Path(log), format, progress)

    @changes
    def _replay(self, apply: Callable[[], None]) -> None:
        apply()

    # ---- files and copies ------------------------------------------------------------------------

    def save(self, path: str | PathLike[str]) -> None:
        """Save the bandit to a file, without its clock, log and callback. The file is replaced atomically.

        Parameters
        ----------
        path : str or path
            The file to write.

        Raises
        ------
        ModelFileError
            If the file cannot be written, or the bandit could not be loaded from it.
        """
        snapshot = self._snapshot()
        try:
            BanditCore.from_snapshot(snapshot)
        except _model_file.INVALID as error:
            raise ModelFileError(
                f"cannot write {path}: the bandit could not be loaded from it ({error}); load an earlier copy"
            ) from error
        _model_file.write(path, snapshot)

    @classmethod
    def load(cls, path: str | PathLike[str], *, clock: Clock = BanditConfig.clock) -> Self:
        """Load a bandit. It continues exactly as the saved one would have.

        Parameters
        ----------
        path : str or path
            A file written by :meth:`save`.
        clock : function, default time.time
            Function that returns the time in seconds. It is not part of the file.

        Returns
        -------
        Bandit
            The loaded bandit.

        Raises
        ------
        ModelFileError
            If the file cannot be read, is damaged, has another format version, or holds a policy.
        """
        bandit = cls.__new__(cls)
        snapshot, core = _model_file.load(path, "Bandit", lambda one: (one, BanditCore.from_snapshot(one)))
        core.change(clock=clock)
        bandit._start(core, {**snapshot.arguments, "clock": clock})
        return bandit

    @reads
    def _snapshot(self) -> Snapshot:
        """Return a copy of everything that determines the future of the bandit, as :meth:`save` stores it."""
        return self._core.snapshot()

    @classmethod
    def _from_snapshot(cls, snapshot: Snapshot) -> Self:
        """Return a bandit restored from a snapshot. It continues exactly as the original would have.

        Raises
        ------
        KeyError, TypeError, ValueError
            If it is not a snapshot of a bandit.
        """
        bandit = cls.__new__(cls)
        bandit.__setstate__(snapshot)
        return bandit

    def __getstate__(self) -> Snapshot:
        with self._lock:  # also after an interrupt: a copy accepts the state
            return self._core.snapshot()

    def __setstate__(self, snapshot: Snapshot) -> None:
        core = BanditCore.from_snapshot(snapshot)
        self._start(core, {**snapshot.arguments, "clock": core.config.clock})
