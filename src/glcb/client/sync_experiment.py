# Generated from async_experiment.py by scripts/unasync.py; do not edit.
"""Experiments of the synchronous client."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, TypeVar, Unpack

from glcb._api.guardrails import Change, ChangeList
from glcb._api.requests import DEFAULT_ESTIMATORS, ChangeArguments
from glcb._api.responses import (
    Decision,
    EvaluationInfo,
    EvaluationList,
    EvaluationResult,
    ExperimentInfo,
    Explanation,
    Ranking,
    RewardAccepted,
)
from glcb._api.statistics import ArmPage, Curves, SegmentList, Stats
from glcb._errors import GlcbError
from glcb.client import _requests
from glcb.client._requests import Request, Response, Reward, parse

if TYPE_CHECKING:
    from glcb.client.sync_client import Client

T = TypeVar("T")


class Experiment:
    """An experiment in the service, with the methods of ``glcb.Bandit``.

    Returned by :meth:`Client.create` and :meth:`Client.experiment`. Methods that change the
    experiment return its new state.
    """

    def __init__(self, client: "Client", name: str) -> None:
        self.name = name
        self._client = client

    def __repr__(self) -> str:
        return f"Experiment({self.name!r} of {self._client!r})"

    # ---- decisions and rewards ------------------------------------------------------------------

    def decide(
        self,
        context: Any,
        *,
        arms: Any = None,
        eligible: Iterable[str] | None = None,
        control: str | None = None,
        unit: str | None = None,
        id: str | None = None,  # noqa: A002 (the name of the attribute of a decision)
        idempotency_key: str | None = None,
    ) -> Decision:
        """Choose an arm for a context.

        Parameters
        ----------
        context
            A dict, a row of a data frame, or a list or array of values.
        arms
            The candidates of this request: the features of each arm, by name. None for the catalog. Only if
            the arms of the experiment have features.
        eligible
            The arms to choose from, among the candidates; None for all.
        control
            The choice of the existing system, to estimate the lift over it.
        unit
            Who or what the decision is for, such as a user. Either all decisions for a unit are in the
            holdout, or none.
        id
            The id of the decision: 1 to 100 characters from A–Z, a–z, 0–9, ``_`` and ``-``. None lets the
            service choose one.
        idempotency_key
            Calls with the same key return the same decision. Without one, every call is a new decision, made
            once even if the request has to be retried.

        Returns
        -------
        Decision
            The chosen arm, its propensity, and the id to send the reward to.

        Raises
        ------
        InvalidContext
            If the context cannot be used.
        UnknownArm
            If an eligible arm does not exist.
        DuplicateDecision
            If the experiment already has a decision with this id.
        InvalidInput
            If the id or a candidate is invalid, or the idempotency key was used before with a different
            request.
        NotRunning
            If the experiment is paused or archived.
        ServiceUnavailable
            If the service did not respond.
        """
        request = _requests.decide(
            self.name, context, arms, eligible, id, idempotency_key, control=control, unit=unit
        )
        return self._request(request, Decision)

    def decide_many(
        self, contexts: Any, *, arms: Any = None, eligible: Iterable[str] | None = None
    ) -> list[Decision | GlcbError]:
        """Choose an arm for each of many contexts.

        Parameters
        ----------
        contexts
            A list of contexts, or a pandas or Polars data frame with one context per row.
        arms
            The candidates for each context, as in :meth:`decide`.
        eligible
            The arms to choose from, among the candidates; None for all.

        Returns
        -------
        list of Decision or GlcbError
            For each context, in order, the decision or the error with which it was rejected.

        Raises
        ------
        InvalidContext
            If a context cannot be encoded. No request is sent.
        """
        requests, count = _requests.decide_many(self.name, contexts, arms, eligible)
        return self._send_batches(requests, count, lambda response: _requests.parse_batch(response, Decision))

    def rank(
        self,
        context: Any,
        *,
        k: int,
        arms: Any = None,
        eligible: Iterable[str] | None = None,
        control: str | Sequence[str] | None = None,
        unit: str | None = None,
        id: str | None = None,  # noqa: A002 (the name of the attribute of a ranking)
        idempotency_key: str | None = None,
    ) -> Ranking:
        """Choose ``k`` different arms for a context, in order.

        Parameters
        ----------
        context
            A context as in :meth:`decide`.
        k
            Number of slots.
        control
            The choice of the existing system: the arms of the first slots.
        arms, eligible, unit, id, idempotency_key
            As for :meth:`decide`.

        Returns
        -------
        Ranking
            The arm of each slot, its propensity given the slots above it, and one id for all rewards.

        Raises
        ------
        InvalidInput
            If ``k`` is larger than the number of candidates, or as for :meth:`decide`.
        InvalidContext, UnknownArm, DuplicateDecision, NotRunning, ServiceUnavailable
            As for :meth:`decide`.
        """
        request = _requests.rank(
            self.name, context, k, arms, eligible, id, idempotency_key, control=control, unit=unit
        )
        return self._request(request, Ranking)

    def rank_many(
        self, contexts: Any, *, k: int, arms: Any = None, eligible: Iterable[str] | None = None
    ) -> list[Ranking | GlcbError]:
        """Choose ``k`` different arms for each of many contexts.

        Parameters
        ----------
        contexts, arms, eligible
            As for :meth:`decide_many`.
        k
            Number of slots.

        Returns
        -------
        list of Ranking or GlcbError
            For each context, in order, the ranking or the error with which it was rejected.

        Raises
        ------
        InvalidContext
            If a context cannot be encoded. No request is sent.
        """
        requests, count = _requests.rank_many(self.name, contexts, k, arms, eligible)
        return self._send_batches(requests, count, lambda response: _requests.parse_batch(response, Ranking))

    def reward(
        self,
        decision: str,
        value: float,
        *,
        slot: int | None = None,
        examined: int | None = None,
        metrics: Mapping[str, float] | None = None,
        idempotency_key: str | None = None,
    ) -> bool:
        """Report the reward of a decision or a ranking.

        Parameters
        ----------
        decision
            The id of the decision or the ranking.
        value
            The reward.
        slot
            The slot of a ranking, from 0. None if the reward is for the whole ranking.
        examined
            Number of slots that the user saw. Completes a ranking: seen slots without a reward learn the
            default or the lowest reward; nothing is learned from unseen slots.
        metrics
            Further metrics of the decision, by name.
        idempotency_key
            A reward with the same key as an earlier reward of this decision is ignored. Without a key, every
            call reports a new reward, once even if the request has to be retried.

        Returns
        -------
        bool
            Whether the reward was accepted; False for a duplicate. True if a lost response makes it unclear
            which attempt reported the reward.

        Raises
        ------
        UnknownDecision
            If the experiment has no such decision.
        ClosedDecision
            If the decision no longer accepts a reward.
        DuplicateReward
            If the decision has already been rewarded.
        InvalidReward
            If the reward is outside the declared range.
        NotRunning
            If the experiment is archived.
        """
        response = self._client._send(
            _requests.reward(self.name, decision, value, slot, examined, idempotency_key, metrics)
        )
        return _requests.was_accepted(parse(response, RewardAccepted), response)

    def reward_many(self, rewards: Iterable[Reward]) -> list[bool | GlcbError]:
        """Report the rewards of many decisions.

        Parameters
        ----------
        rewards
            Tuples ``(id, value)`` or ``(id, value, idempotency_key)``, or dicts with the keys ``id`` and
            ``value`` and optionally ``slot``, ``examined``, ``metrics`` and ``idempotency_key``.

        Returns
        -------
        list of bool or GlcbError
            For each reward, in order, whether it was accepted, as in :meth:`reward`, or the error with which
            it was rejected.
        """
        requests, count = _requests.reward_many(self.name, rewards)
        return self._send_batches(requests, count, _requests.parse_accepted)

    def explain(
        self, context: Any, *, arms: Any = None, eligible: Iterable[str] | None = None
    ) -> Explanation:
        """Explain the decision for a context without making it.

        Parameters
        ----------
        context
            A context as in :meth:`decide`.
        arms
            The candidates, as in :meth:`decide`.
        eligible
            The arms to choose from, among the candidates; None for all.

        Returns
        -------
        Explanation
            Value, bonus, probability and feature contributions of each arm; if arms have features, of all
            ``eligible`` arms, or of the 20 with the best scores.

        Raises
        ------
        InvalidContext
            If the context cannot be used.
        NotSupported
            If the policy cannot explain its decisions.
        """
        return self._request(_requests.explain(self.name, context, arms, eligible), Explanation)

    # ---- arms -----------------------------------------------------------------------------------

    def arms(self) -> tuple[str, ...]:
        """Return the names of the current arms.

        Returns
        -------
        tuple of str
            The names. More than 100 arms with features take several requests.
        """
        info = self.info()
        names = list(info.settings.arms)
        if info.arm_count > len(names):
            pages = [self._request(_requests.catalog_page(self.name, 0), ArmPage)]
            while (offset := pages[-1].offset + _requests.PAGE) < pages[-1].total:
                pages.append(self._request(_requests.catalog_page(self.name, offset), ArmPage))
            names = [row.arm for page in pages for row in page.arms if row.in_catalog]
        return tuple(names)

    def list_arms(
        self,
        *,
        search: str = "",
        sort: Literal["decisions", "name", "share", "reward_mean", "predicted", "rewards"] = "decisions",
        order: Literal["desc", "asc"] = "desc",
        offset: int = 0,
        limit: int = 50,
    ) -> ArmPage:
        """Return a page of the list of arms, with their features and statistics.

        Parameters
        ----------
        search
            Only names that contain this text, in any case.
        sort
            The column to sort by. Arms without a value always come last.
        order
            ``"desc"`` or ``"asc"``.
        offset
            Number of arms to skip.
        limit
            Number of arms to return, at most 1,000.

        Returns
        -------
        ArmPage
            The arms, and the number of all matching arms.

        Raises
        ------
        InvalidInput
            If an argument is invalid.
        """
        request = _requests.list_arms(
            self.name, search=search, sort=sort, order=order, offset=offset, limit=limit
        )
        return self._request(request, ArmPage)

    def add_arm(
        self, name: str, *, like: str | None = None, features: Mapping[str, Any] | None = None
    ) -> ExperimentInfo:
        """Add an arm.

        Parameters
        ----------
        name
            Name of the new arm.
        like
            An arm to copy, with little of its evidence; None for an untrained arm.
        features
            Its features, if the arms of the experiment have features.

        Returns
        -------
        ExperimentInfo
            The experiment after the change.

        Raises
        ------
        InvalidSettings
            If the experiment already has an arm with this name.
        UnknownArm
            If ``like`` does not exist.
        """
        return self._request(_requests.add_arm(self.name, name, like, features), ExperimentInfo)

    def remove_arm(self, name: str) -> ExperimentInfo:
        """Remove an arm and everything learned about it; its pending decisions are closed.

        An arm with features only leaves the catalog: what was learned is shared, and its decisions remain.

        Parameters
        ----------
        name
            Name of the arm.

        Returns
        -------
        ExperimentInfo
            The experiment after the change.

        Raises
        ------
        UnknownArm
            If the experiment has no such arm.
        InvalidSettings
            If it is the only arm.
        """
        return self._request(_requests.remove_arm(self.name, name), ExperimentInfo)

    def set_arms(self, arms: Mapping[str, Mapping[str, Any] | None]) -> ExperimentInfo:
        """Replace all arms, if arms have features. What was learned remains.

        Parameters
        ----------
        arms
            The features of each arm, by name.

        Returns
        -------
        ExperimentInfo
            The experiment after the change.

        Raises
        ------
        InvalidInput
            If the arms of the experiment have no features, or ``arms`` are invalid.
        """
        return self._request(_requests.set_arms(self.name, arms), ExperimentInfo)

    def change_arms(
        self,
        arms: Mapping[str, Mapping[str, Any] | None] | None = None,
        *,
        remove: Iterable[str] = (),
    ) -> ExperimentInfo:
        """Add arms with features, change their features, and remove arms.

        Parameters
        ----------
        arms
            The features of each arm to add or to change, by name.
        remove
            Names of arms to remove.

        Returns
        -------
        ExperimentInfo
            The experiment after the change.

        Raises
        ------
        UnknownArm
            If an arm to remove does not exist.
        InvalidInput
            If the arms of the experiment have no features, or ``arms`` are invalid.
        """
        return self._request(_requests.change_arms(self.name, arms, remove), ExperimentInfo)

    def pause_arm(self, name: str, *, reason: str | None = None) -> ExperimentInfo:
        """Stop choosing an arm until :meth:`resume_arm`; what was learned about it is kept.

        Parameters
        ----------
        name
            Name of the arm.
        reason
            The reason, for the change history.

        Returns
        -------
        ExperimentInfo
            The experiment after the change.

        Raises
        ------
        UnknownArm
            If the experiment has no such arm.
        InvalidSettings
            If it is the control, or the only arm that is not paused.
        """
        return self._request(_requests.pause_arm(self.name, name, True, reason), ExperimentInfo)

    def resume_arm(self, name: str, *, reason: str | None = None) -> ExperimentInfo:
        """Choose a paused arm again. Its guardrail estimates start over.

        Parameters
        ----------
        name
            Name of the arm.
        reason
            The reason, for the change history.

        Returns
        -------
        ExperimentInfo
            The experiment after the change.

        Raises
        ------
        UnknownArm
            If the experiment has no such arm.
        """
        return self._request(_requests.pause_arm(self.name, name, False, reason), ExperimentInfo)

    # ---- settings and state ---------------------------------------------------------------------

    def info(self) -> ExperimentInfo:
        """Return the settings, state, counts and health of the experiment.

        Returns
        -------
        ExperimentInfo
            The experiment; for example, ``counts`` are decisions by outcome, and ``reward_counts`` rewards
            learned by arm.
        """
        return self._request(_requests.info(self.name), ExperimentInfo)

    def change(self, *, reason: str | None = None, **settings: Unpack[ChangeArguments]) -> ExperimentInfo:
        """Change settings of the experiment. Omitted settings are unchanged; None removes a setting.

        Parameters
        ----------
        reason
            The reason, for the change history.
        **settings
            The fields of ``ExperimentSettings`` to change.

        Returns
        -------
        ExperimentInfo
            The experiment after the change.

        Raises
        ------
        InvalidSettings
            If a setting is invalid.
        NotSupported
            If the policy cannot forget and ``half_life`` is set.
        NotRunning
            If the experiment is archived.
        """
        request = _requests.change(self.name, settings, reason)
        return self._request(request, ExperimentInfo)

    def changes(self, *, limit: int = 20, before: int = 0) -> tuple[Change, ...]:
        """Return the change history: changes of settings, arms and models, and automatic pauses.

        Parameters
        ----------
        limit
            Number of changes, at most 100.
        before
            Return only changes before the event with this sequence number; 0 for the newest.

        Returns
        -------
        tuple of Change
            The changes, newest first.
        """
        listed = self._request(_requests.changes(self.name, limit, before), ChangeList)
        return listed.changes

    def pause(self, *, reason: str | None = None) -> ExperimentInfo:
        """Reject decisions until :meth:`resume`; rewards are still accepted."""
        return self._request(_requests.set_state(self.name, "paused", reason), ExperimentInfo)

    def resume(self, *, reason: str | None = None) -> ExperimentInfo:
        """Accept decisions again."""
        return self._request(_requests.set_state(self.name, "running", reason), ExperimentInfo)

    def archive(self, *, reason: str | None = None) -> ExperimentInfo:
        """Reject decisions and rewards; everything can still be read."""
        return self._request(_requests.set_state(self.name, "archived", reason), ExperimentInfo)

    def recover(self) -> ExperimentInfo:
        """Let a damaged experiment continue from its last good state; later events are set aside.

        Rewards of decisions that were set aside are rejected as unknown.

        Returns
        -------
        ExperimentInfo
            The recovered experiment.

        Raises
        ------
        ServiceError
            If the experiment is not damaged, or there is no good state. Nothing has changed.
        """
        return self._request(_requests.recover(self.name), ExperimentInfo)

    def delete(self) -> None:
        """Delete the experiment with its decisions, rewards and model."""
        self._client._send(_requests.delete(self.name))

    # ---- statistics -----------------------------------------------------------------------------

    def stats(self) -> Stats:
        """Return lift, match rate, arms, history, features, rejected requests, latency and health."""
        return self._request(_requests.stats(self.name), Stats)

    def curves(
        self,
        *,
        start: datetime | None = None,
        end: datetime | None = None,
        points: int = 200,
        arm: str | None = None,
    ) -> Curves:
        """Return the experiment over time: lift with its interval, rewards, shares and arms.

        Parameters
        ----------
        start
            Start of the range, with a time zone; None for the start of the experiment.
        end
            End of the range, with a time zone; None for now.
        points
            The maximum number of points, at most 500.
        arm
            An arm whose decisions and rewards are included in each point.

        Returns
        -------
        Curves
            The points, and the totals of the range.

        Raises
        ------
        InvalidInput
            If an argument is invalid.
        UnknownArm
            If the arm does not exist.
        """
        return self._request(_requests.curves(self.name, start, end, points, arm), Curves)

    def segments(self) -> SegmentList:
        """Return lift and best arms by segment: values of categories and ranges of numbers.

        Returns
        -------
        SegmentList
            The segments of each feature. With 95% confidence, all intervals are right at all times.
        """
        return self._request(_requests.segments(self.name), SegmentList)

    # ---- evaluations ----------------------------------------------------------------------------

    def evaluate(
        self,
        policies: Sequence[str] | Mapping[str, str | Mapping[str, Any]],
        *,
        after: int | datetime | None = None,
        before: int | datetime | None = None,
        estimators: Sequence[str] = DEFAULT_ESTIMATORS,
        reference: str = "logged",
        default_reward: float | None = None,
        replay: bool = True,
        max_ratio: float | None = None,
        constant_values: bool = False,
        seed: int = 0,
        progress: Callable[[EvaluationInfo], None] | None = None,
    ) -> EvaluationResult:
        """Estimate what other policies or settings would have earned, and wait for the result.

        The service evaluates the decisions and rewards of the experiment, without changing it. If the call is
        interrupted, the evaluation continues; see :meth:`evaluations`.

        Parameters
        ----------
        policies
            Names of policies, or a dict from any name to a policy. A policy is "uniform", "best-fixed-arm",
            "arm=NAME", the name of a policy that replaces the experiment's policy, or a dict of settings that
            replace the experiment's settings, such as ``{"exploration": 0.02}`` or ``{"without":
            ["games"]}``.
        after, before
            Evaluate only decisions in this range of sequence numbers, or of times with a time zone.
        estimators
            Any of "ips", "snips", "clipped-ips", "dm", "dr", "switch-dr" and "shrunk-dr". Curves plot the
            first one.
        reference
            The policy that differences are relative to; "logged" is the experiment itself.
        default_reward
            Reward to assume where the log has none. None for the experiment's default reward.
        replay
            Whether to also replay the policies that learn.
        max_ratio
            The bound on π / p for replay. None for 1 / the smallest propensity.
        constant_values
            Whether to add a confidence sequence that assumes constant values.
        seed
            Seed of all random numbers.
        progress
            Called with the evaluation a few times while it is queued or running.

        Returns
        -------
        EvaluationResult
            The estimated values with intervals and diagnostics.

        Raises
        ------
        InvalidSettings
            If a policy is unknown or has invalid settings.
        UnknownArm
            If an arm does not exist.
        InvalidInput
            If an argument is invalid, or too many evaluations are queued.
        ServiceError
            If the evaluation fails or is canceled.
        """
        info = self.start_evaluation(
            policies,
            after=after,
            before=before,
            estimators=estimators,
            reference=reference,
            default_reward=default_reward,
            replay=replay,
            max_ratio=max_ratio,
            constant_values=constant_values,
            seed=seed,
        )
        pauses = _requests.poll_pauses()
        while (result := _requests.evaluation_result(info)) is None:
            if progress is not None:
                progress(info)
            time.sleep(next(pauses))
            info = self.evaluation(info.id)
        return result

    def start_evaluation(
        self,
        policies: Sequence[str] | Mapping[str, str | Mapping[str, Any]],
        *,
        after: int | datetime | None = None,
        before: int | datetime | None = None,
        estimators: Sequence[str] = DEFAULT_ESTIMATORS,
        reference: str = "logged",
        default_reward: float | None = None,
        replay: bool = True,
        max_ratio: float | None = None,
        constant_values: bool = False,
        seed: int = 0,
    ) -> EvaluationInfo:
        """Start an evaluation without waiting for its result. The arguments are those of :meth:`evaluate`.

        Returns
        -------
        EvaluationInfo
            The evaluation, which is queued.
        """
        request = _requests.start_evaluation(
            self.name,
            policies,
            after=after,
            before=before,
            estimators=list(estimators),
            reference=reference,
            default_reward=default_reward,
            replay=replay,
            max_ratio=max_ratio,
            constant_values=constant_values,
            seed=seed,
        )
        return self._request(request, EvaluationInfo)

    def evaluation(self, id: int) -> EvaluationInfo:  # noqa: A002 (the name of the attribute)
        """Return an evaluation: its state, progress and result.

        Parameters
        ----------
        id
            The id of the evaluation.

        Returns
        -------
        EvaluationInfo
            The evaluation.
        """
        return self._request(_requests.evaluation(self.name, id), EvaluationInfo)

    def evaluations(self, *, limit: int = 20, before: int | None = None) -> tuple[EvaluationInfo, ...]:
        """Return the evaluations of the experiment without their results, newest first.

        Parameters
        ----------
        limit
            The maximum number of evaluations, at most 100.
        before
            Return only evaluations with a smaller id.

        Returns
        -------
        tuple of EvaluationInfo
            The evaluations.
        """
        request = _requests.evaluations(self.name, limit, before)
        listed = self._request(request, EvaluationList)
        return listed.evaluations

    def cancel_evaluation(self, id: int) -> None:  # noqa: A002
        """Cancel a queued or running evaluation, or delete a finished one.

        Parameters
        ----------
        id
            The id of the evaluation.
        """
        self._client._send(_requests.cancel_evaluation(self.name, id))

    # ---- files ----------------------------------------------------------------------------------

    def export(
        self,
        path: str | PathLike[str],
        *,
        format: Literal["jsonl", "parquet"] = "jsonl",  # noqa: A002
        after: int = 0,
    ) -> None:
        """Write decisions and rewards to a file that ``Bandit.learn_from`` can read.

        Rewards are exported as they were reported. Default rewards, learned when a decision times out, are
        not included.

        Parameters
        ----------
        path
            The file to write.
        format
            ``"jsonl"`` or ``"parquet"``.
        after
            Export only events with a larger sequence number.

        Raises
        ------
        LogError
            If the file cannot be written.
        """
        self._client._send(_requests.export(self.name, path, format, after))

    def save_model(self, path: str | PathLike[str]) -> None:
        """Save the bandit to a file that ``Bandit.load`` can read.

        Parameters
        ----------
        path
            The file to write.

        Raises
        ------
        ModelFileError
            If the file cannot be written.
        """
        self._client._send(_requests.save_model(self.name, path))

    def load_model(self, path: str | PathLike[str]) -> ExperimentInfo:
        """Replace the bandit, including its arms and settings, with a bandit from a file.

        Parameters
        ----------
        path
            A file written by :meth:`save_model` or ``Bandit.save``.

        Returns
        -------
        ExperimentInfo
            The experiment after the change.

        Raises
        ------
        ModelFileError
            If the file cannot be read or is not usable by the service.
        """
        return self._request(_requests.load_model(self.name, path), ExperimentInfo)

    # ---- requests -------------------------------------------------------------------------------

    def _request(self, request: Request, kind: type[T]) -> T:
        return parse(self._client._send(request), kind)

    def _send_batches(
        self, requests: list[Request], count: int, parse_items: Callable[[Response], list[T | GlcbError]]
    ) -> list[T | GlcbError]:
        """Return one result per item; a failed request returns its error for each unprocessed item."""
        results: list[T | GlcbError] = []
        for request in requests:
            try:
                response = self._client._send(request)
            except GlcbError as error:
                if not results:
                    raise
                return [*results, *[error] * (count - len(results))]
            results.extend(parse_items(response))
        return results
