"""Experiments of the asynchronous client."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import anyio
from msgspec.structs import asdict

from glcb._api.requests import DEFAULT_ESTIMATORS
from glcb._api.responses import (
    Decision,
    EvaluationInfo,
    EvaluationList,
    EvaluationResult,
    ExperimentInfo,
    Explanation,
    RewardAccepted,
    Stats,
)
from glcb._errors import GlcbError
from glcb.client import _requests
from glcb.client._requests import Request, Response, Reward, parse

if TYPE_CHECKING:
    from glcb.client.async_ import AsyncClient

T = TypeVar("T")


class AsyncExperiment:
    """An experiment in the service, with the methods of ``glcb.Bandit``.

    Returned by :meth:`AsyncClient.create` and :meth:`AsyncClient.experiment`. Methods that
    change the experiment return it as it is after the change.
    """

    def __init__(self, client: "AsyncClient", name: str) -> None:
        self.name = name
        self._client = client

    # ---- decisions and rewards ------------------------------------------------------------------

    async def decide(
        self,
        context: Any,
        *,
        eligible: Iterable[str] | None = None,
        id: str | None = None,  # noqa: A002 (the name of the attribute of a decision)
        idempotency_key: str | None = None,
    ) -> Decision:
        """Choose an arm for a context.

        Parameters
        ----------
        context
            A dict, a row of a data frame, or a list or array of values.
        eligible
            The arms to choose from; None for all.
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
            If the id is invalid, or the idempotency key was used before with a different request.
        NotRunning
            If the experiment is paused or archived.
        ServiceUnavailable
            If the service did not respond.
        """
        request = _requests.decide(self.name, context, eligible, id, idempotency_key)
        return await self._request(request, Decision)

    async def decide_many(
        self, contexts: Any, *, eligible: Iterable[str] | None = None
    ) -> list[Decision | GlcbError]:
        """Choose an arm for each of many contexts.

        Parameters
        ----------
        contexts
            A list of contexts, or a pandas or Polars data frame with one context per row.
        eligible
            The arms to choose from; None for all.

        Returns
        -------
        list of Decision or GlcbError
            For each context, in order, the decision or the error with which it was refused.

        Raises
        ------
        InvalidContext
            If a context cannot be encoded. No request is sent.
        """
        requests, count = _requests.decide_many(self.name, contexts, eligible)
        return await self._send_batches(
            requests, count, lambda response: _requests.parse_batch(response, Decision)
        )

    async def reward(self, decision: str, value: float, *, idempotency_key: str | None = None) -> bool:
        """Report the reward of a decision.

        Parameters
        ----------
        decision
            The id of the decision.
        value
            The reward.
        idempotency_key
            A reward with the same key as an earlier one of this decision is ignored. Without one, every call
            reports a new reward, once even if the request has to be retried.

        Returns
        -------
        bool
            Whether the reward was accepted; False for a duplicate. If a response was lost, so that it is
            unclear which attempt reported the reward, the result is True.

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
        response = await self._client._send(_requests.reward(self.name, decision, value, idempotency_key))
        return _requests.was_accepted(parse(response, RewardAccepted), response)

    async def reward_many(self, rewards: Iterable[Reward]) -> list[bool | GlcbError]:
        """Report the rewards of many decisions.

        Parameters
        ----------
        rewards
            Tuples ``(id, value)`` or ``(id, value, idempotency_key)``.

        Returns
        -------
        list of bool or GlcbError
            For each reward, in order, whether it was accepted, as in :meth:`reward`, or the error with which
            it was refused.
        """
        requests, count = _requests.reward_many(self.name, rewards)
        return await self._send_batches(requests, count, _requests.parse_accepted)

    async def explain(self, context: Any, *, eligible: Iterable[str] | None = None) -> Explanation:
        """Explain the decision for a context without making it.

        Parameters
        ----------
        context
            A context as in :meth:`decide`.
        eligible
            The arms to choose from; None for all.

        Returns
        -------
        Explanation
            Value, bonus, probability and feature contributions of each arm.

        Raises
        ------
        InvalidContext
            If the context cannot be used.
        NotSupported
            If the policy cannot explain its decisions.
        """
        return await self._request(_requests.explain(self.name, context, eligible), Explanation)

    # ---- arms and state -------------------------------------------------------------------------

    async def add_arm(self, name: str, *, like: str | None = None) -> ExperimentInfo:
        """Add an arm.

        Parameters
        ----------
        name
            Name of the new arm.
        like
            An arm to copy, with little of its evidence; None for an untrained arm.

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
        return await self._request(_requests.add_arm(self.name, name, like), ExperimentInfo)

    async def remove_arm(self, name: str) -> ExperimentInfo:
        """Remove an arm and everything learned about it; its pending decisions are closed.

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
        return await self._request(_requests.remove_arm(self.name, name), ExperimentInfo)

    async def change(
        self,
        *,
        exploration: float | None = None,
        exploration_mode: Literal["gap", "uniform"] | None = None,
        schema: Mapping[str, Any] | None = None,
        holdout: float | None = None,
    ) -> ExperimentInfo:
        """Change settings of the experiment; None leaves a setting unchanged.

        Parameters
        ----------
        exploration
            Share of decisions spent on exploration.
        exploration_mode
            ``"gap"`` or ``"uniform"``.
        schema
            The declared features, by name; those of an empty dict are all inferred.
        holdout
            Share of decisions that are made uniformly at random.

        Returns
        -------
        ExperimentInfo
            The experiment after the change.

        Raises
        ------
        InvalidSettings
            If a setting is invalid.
        NotRunning
            If the experiment is archived.
        """
        changes = {"exploration": exploration, "exploration_mode": exploration_mode, "schema": schema}
        request = _requests.change(self.name, **changes, holdout=holdout)
        return await self._request(request, ExperimentInfo)

    async def pause(self) -> ExperimentInfo:
        """Refuse decisions until :meth:`resume`; rewards are still accepted."""
        return await self._request(_requests.change(self.name, state="paused"), ExperimentInfo)

    async def resume(self) -> ExperimentInfo:
        """Accept decisions again."""
        return await self._request(_requests.change(self.name, state="running"), ExperimentInfo)

    async def archive(self) -> ExperimentInfo:
        """Refuse decisions and rewards; everything can still be read."""
        return await self._request(_requests.change(self.name, state="archived"), ExperimentInfo)

    async def delete(self) -> None:
        """Delete the experiment with its decisions, rewards and model."""
        await self._client._send(_requests.delete(self.name))

    # ---- information ----------------------------------------------------------------------------

    async def info(self) -> ExperimentInfo:
        """Return the settings, state, counts and health of the experiment."""
        return await self._request(_requests.info(self.name), ExperimentInfo)

    async def stats(self) -> Stats:
        """Return lift, match rate, arms, history, features, refused requests, latency and health."""
        return await self._request(_requests.stats(self.name), Stats)

    async def arms(self) -> tuple[str, ...]:
        """Return the names of the current arms."""
        return tuple((await self.info()).settings.arms)

    async def counts(self) -> dict[str, int]:
        """Return the number of decisions, in total and by outcome, as a dict."""
        return asdict((await self.info()).counts)

    async def reward_counts(self) -> dict[str, int]:
        """Return the number of rewards learned, by arm, as a dict."""
        return (await self.info()).reward_counts

    # ---- evaluations ----------------------------------------------------------------------------

    async def evaluate(
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
        interrupted, the evaluation goes on; see :meth:`evaluations`.

        Parameters
        ----------
        policies
            Names of policies, or a dict from any name to a policy. A policy is "uniform", "best-fixed-arm",
            "arm=NAME", the name of a policy that replaces the one of the experiment, or a dict of settings
            that replace those of the experiment, such as ``{"exploration": 0.02}`` or
            ``{"without": ["games"]}``.
        after, before
            Evaluate only decisions in this range of sequence numbers, or of times with a time zone.
        estimators
            Any of "ips", "snips", "clipped-ips", "dm", "dr", "switch-dr" and "shrunk-dr". Curves show the
            first one.
        reference
            The policy that differences are relative to; "logged" is the experiment itself.
        default_reward
            Reward of decisions without one. None for the one of the experiment.
        replay
            Whether to replay the policies that learn as well.
        max_ratio
            The bound of π / p for replay. None for 1 / the smallest propensity.
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
        info = await self.start_evaluation(
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
            await anyio.sleep(next(pauses))
            info = await self.evaluation(info.id)
        return result

    async def start_evaluation(
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
        return await self._request(request, EvaluationInfo)

    async def evaluation(self, id: int) -> EvaluationInfo:  # noqa: A002 (the name of the attribute)
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
        return await self._request(_requests.evaluation(self.name, id), EvaluationInfo)

    async def evaluations(self, *, limit: int = 20, before: int | None = None) -> tuple[EvaluationInfo, ...]:
        """Return the evaluations of the experiment without their results, newest first.

        Parameters
        ----------
        limit
            The largest number of evaluations, at most 100.
        before
            Return only evaluations with a smaller id.

        Returns
        -------
        tuple of EvaluationInfo
            The evaluations.
        """
        request = _requests.evaluations(self.name, limit, before)
        return (await self._request(request, EvaluationList)).evaluations

    async def cancel_evaluation(self, id: int) -> None:  # noqa: A002
        """Cancel an evaluation that is queued or running, or delete one that is not.

        Parameters
        ----------
        id
            The id of the evaluation.
        """
        await self._client._send(_requests.cancel_evaluation(self.name, id))

    # ---- files ----------------------------------------------------------------------------------

    async def export(
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
        await self._client._send(_requests.export(self.name, path, format, after))

    async def save_model(self, path: str | PathLike[str]) -> None:
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
        await self._client._send(_requests.save_model(self.name, path))

    async def load_model(self, path: str | PathLike[str]) -> ExperimentInfo:
        """Replace the bandit of the experiment, including its arms and settings, with one from a file.

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
        return await self._request(_requests.load_model(self.name, path), ExperimentInfo)

    def __repr__(self) -> str:
        return f"AsyncExperiment({self.name!r} of {self._client!r})"

    async def _request(self, request: Request, kind: type[T]) -> T:
        return parse(await self._client._send(request), kind)

    async def _send_batches(
        self, requests: list[Request], count: int, parse_items: Callable[[Response], list[T | GlcbError]]
    ) -> list[T | GlcbError]:
        """Return one result per item; a failed request returns its error for each unprocessed item."""
        results: list[T | GlcbError] = []
        for request in requests:
            try:
                response = await self._client._send(request)
            except GlcbError as error:
                if not results:
                    raise
                return [*results, *[error] * (count - len(results))]
            results.extend(parse_items(response))
        return results
