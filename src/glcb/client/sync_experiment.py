"""Experiments of the blocking client."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from msgspec.structs import asdict

from glcb._api.responses import (
    Decision,
    ExperimentInfo,
    Explanation,
    Ranking,
    RewardAccepted,
)
from glcb._api.statistics import ArmPage
from glcb._errors import GlcbError
from glcb.client import _requests
from glcb.client._requests import Request, Response, Reward, parse
from glcb.client.sync_settings import Settings

if TYPE_CHECKING:
    pass

T = TypeVar("T")


class Experiment(Settings):
    """An experiment in the service, with the methods of ``glcb.Bandit``.

    Returned by :meth:`Client.create` and :meth:`Client.experiment`. Methods that
    change the experiment return it as it is after the change.
    """

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
            The choice of the existing system, for the lift over it.
        unit
            Who the decision is for, such as a user. Either all decisions for a unit are in the holdout, or
            none.
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
            For each context, in order, the ranking or the error with which it was refused.

        Raises
        ------
        InvalidContext
            If a context cannot be encoded. No request is sent.
        """
        requests, count = _requests.rank_many(self.name, contexts, k, arms, eligible)
        return self._send_batches(requests, count, lambda response: _requests.parse_batch(response, Ranking))

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
            For each context, in order, the decision or the error with which it was refused.

        Raises
        ------
        InvalidContext
            If a context cannot be encoded. No request is sent.
        """
        requests, count = _requests.decide_many(self.name, contexts, arms, eligible)
        return self._send_batches(requests, count, lambda response: _requests.parse_batch(response, Decision))

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
            The slot of a ranking, from 0. None if the reward is that of the whole ranking.
        examined
            Number of slots that were seen. It completes a ranking: slots that were seen and have no reward
            learn the default reward, or the lowest one; nothing is learned from the others.
        metrics
            Further metrics of the decision, by name.
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
        response = self._client._send(
            _requests.reward(self.name, decision, value, slot, examined, idempotency_key, metrics)
        )
        return _requests.was_accepted(parse(response, RewardAccepted), response)

    def reward_many(self, rewards: Iterable[Reward]) -> list[bool | GlcbError]:
        """Report the rewards of many decisions.

        Parameters
        ----------
        rewards
            Tuples ``(id, value)`` or ``(id, value, idempotency_key)``, or dicts with the keys ``id``,
            ``value``, ``slot``, ``examined``, ``metrics`` and ``idempotency_key``, of which all but the first
            two are optional.

        Returns
        -------
        list of bool or GlcbError
            For each reward, in order, whether it was accepted, as in :meth:`reward`, or the error with which
            it was refused.
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
            Value, bonus, probability and feature contributions of each arm. If arms have features: of those
            that are in ``eligible``, or of the 20 with the best scores.

        Raises
        ------
        InvalidContext
            If the context cannot be used.
        NotSupported
            If the policy cannot explain its decisions.
        """
        return self._request(_requests.explain(self.name, context, arms, eligible), Explanation)

    # ---- arms and state -------------------------------------------------------------------------

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

    def delete(self) -> None:
        """Delete the experiment with its decisions, rewards and model."""
        self._client._send(_requests.delete(self.name))

    # ---- information ----------------------------------------------------------------------------

    def info(self) -> ExperimentInfo:
        """Return the settings, state, counts and health of the experiment."""
        return self._request(_requests.info(self.name), ExperimentInfo)

    @property
    def arms(self) -> tuple[str, ...]:
        """The current arms. Sends a request, or several if there are more than 100 arms with features."""
        info = self.info()
        names = list(info.settings.arms)
        if info.arm_count > len(names):
            pages = [self._request(_requests.catalog_page(self.name, 0), ArmPage)]
            while (offset := pages[-1].offset + _requests.PAGE) < pages[-1].total:
                pages.append(self._request(_requests.catalog_page(self.name, offset), ArmPage))
            names = [row.arm for page in pages for row in page.arms if row.in_catalog]
        return tuple(names)

    @property
    def counts(self) -> dict[str, int]:
        """Number of decisions, in total and by outcome. Sends a request."""
        return asdict(self.info().counts)

    @property
    def reward_counts(self) -> dict[str, int]:
        """Number of rewards learned, by arm. Sends a request."""
        return self.info().reward_counts

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
        return self._request(_requests.load_model(self.name, path), ExperimentInfo)

    def __repr__(self) -> str:
        return f"Experiment({self.name!r} of {self._client!r})"

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
