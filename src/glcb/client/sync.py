"""The blocking client."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from os import PathLike
from types import TracebackType
from typing import Any, Literal, Self, TypeVar

import httpx
from msgspec.structs import asdict

from glcb._api.requests import ExperimentSettings
from glcb._api.responses import (
    Decision,
    ExperimentInfo,
    ExperimentList,
    Explanation,
    RewardAccepted,
    Stats,
)
from glcb._errors import GlcbError
from glcb.bandit.config import BanditConfig
from glcb.client import _requests
from glcb.client._requests import Request, Response, Reward, parse
from glcb.client._retries import Answer, Attempts, NoAnswer, RetryPolicy

T = TypeVar("T")


class Client:
    """A client for the decision service.

    A client can be shared by threads. Use it as a context manager, or call :meth:`close`, to close its
    connections.

    Parameters
    ----------
    url
        Address of the service, such as ``"http://localhost:8000"``.
    api_key
        An API key created with ``glcb keys add``. A service on localhost without keys needs none.
    timeout
        Timeout in seconds, for connecting, sending and receiving separately.
    retry_for
        Seconds for which a request is retried when the service does not respond or is not ready; 0 for a
        single attempt. Every decision and reward carries an idempotency key, so that retries are safe.
    transport
        An httpx transport, for tests and special network setups.

    Raises
    ------
    InvalidSettings
        If an argument is invalid.

    Examples
    --------
    ::

        with Client("http://localhost:8000") as client:
            homepage = client.create("homepage", ["sports", "news"], reward_timeout=3600)
            decision = homepage.decide({"country": "FR", "age": 31})
            homepage.reward(decision.id, 1)
    """

    def __init__(
        self,
        url: str,
        api_key: str | None = None,
        *,
        timeout: float = 10.0,
        retry_for: float = 30.0,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self.url = url
        self._retry_policy = RetryPolicy.checked(retry_for)
        self._http = httpx.Client(**_requests.httpx_options(url, api_key, timeout), transport=transport)

    def create(
        self,
        name: str,
        arms: Sequence[str],
        *,
        policy: str = BanditConfig.policy,
        policy_settings: Mapping[str, Any] | None = BanditConfig.policy_settings,
        rewards: Literal["binary"] | tuple[float, float] = BanditConfig.rewards,
        exploration: float = BanditConfig.exploration,
        exploration_mode: Literal["gap", "uniform"] = BanditConfig.exploration_mode,
        schema: Mapping[str, Any] | None = BanditConfig.schema,
        spare_slots: int | None = BanditConfig.spare_slots,
        max_pending: int = BanditConfig.max_pending,
        reward_timeout: float | None = BanditConfig.reward_timeout,
        default_reward: float | None = BanditConfig.default_reward,
        reward_aggregation: Literal["first", "last", "max", "sum"] = BanditConfig.reward_aggregation,
        half_life: int | None = BanditConfig.half_life,
        seed: int = BanditConfig.seed,
        holdout: float = 0.05,
    ) -> "Experiment":
        """Create an experiment, or return it if it exists with the same settings.

        The arguments other than ``name`` and ``holdout`` are those of ``glcb.Bandit``.

        Parameters
        ----------
        name
            Name of the experiment: 1 to 64 characters from a–z, 0–9, ``_`` and ``-``.
        arms
            Names of the arms.
        policy
            Name of the policy that estimates the value of each arm. `glcb policies` lists all names.
        policy_settings
            Settings of the policy, by name.
        rewards
            The range of rewards: "binary" for 0 or 1, or (low, high).
        exploration
            Probability of choosing an arm other than the one with the best score.
        exploration_mode
            How exploration is divided: "gap" prefers arms with scores close to the best, "uniform" has no
            preference.
        schema
            Declared features, by name: a kind, a range or a list of categories. Others are inferred.
        spare_slots
            Number of slots for values and features that appear later. By default it depends on the first
            context.
        max_pending
            Number of decisions that can be pending. When there are more, the oldest is evicted.
        reward_timeout
            Seconds a decision stays pending. None means no limit.
        default_reward
            Reward of a decision without one. If None, nothing is learned from it. Requires
            `reward_timeout`. Both are learned at the same age, before the timeout.
        reward_aggregation
            How several rewards of one decision are combined. All but "first" require `reward_timeout` and are
            learned when it has passed; "sum" is clipped to the range of rewards.
        half_life
            Number of decisions after which evidence counts half as much. None disables forgetting.
        seed
            Seed of all random numbers.
        holdout
            Share of decisions that are made uniformly at random, as a control group for the lift.

        Returns
        -------
        Experiment
            The experiment.

        Raises
        ------
        InvalidSettings
            If a setting is invalid, or the experiment exists with different settings.
        NotSupported
            If the policy does not support one of the settings.
        """
        settings = ExperimentSettings(
            arms=list(arms),
            policy=policy,
            policy_settings=policy_settings,
            rewards=rewards,
            exploration=exploration,
            exploration_mode=exploration_mode,
            schema=schema,
            spare_slots=spare_slots,
            max_pending=max_pending,
            reward_timeout=reward_timeout,
            default_reward=default_reward,
            reward_aggregation=reward_aggregation,
            half_life=half_life,
            seed=seed,
            holdout=holdout,
        )
        parse(self._send(_requests.create(name, settings)), ExperimentInfo)
        return self.experiment(name)

    def experiment(self, name: str) -> "Experiment":
        """Return a handle to an experiment without sending a request.

        Parameters
        ----------
        name
            Name of the experiment.

        Returns
        -------
        Experiment
            The experiment; its methods raise ``UnknownExperiment`` if it does not exist.
        """
        return Experiment(self, name)

    def experiments(self) -> tuple[ExperimentInfo, ...]:
        """Return all experiments that the API key may access.

        Returns
        -------
        tuple of ExperimentInfo
            The experiments, by name.
        """
        return parse(self._send(_requests.list_experiments()), ExperimentList).experiments

    def close(self) -> None:
        """Close all connections."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Client({self.url!r})"

    def _send(self, request: Request) -> Response:
        """Send a request; retry while that is safe and useful."""
        attempts = Attempts(request, self._retry_policy)
        while True:
            outcome = self._exchange(request)
            pause = attempts.next_pause(outcome)
            if pause is None:
                assert isinstance(outcome, Answer)
                return attempts.response(outcome)
            time.sleep(pause)

    def _exchange(self, request: Request) -> Answer | NoAnswer:
        """Send a request once."""
        try:
            with self._http.stream(**request.httpx_arguments()) as response:
                if request.download is None or not response.is_success:
                    return Answer.of(response, response.read())
                with request.download.open() as file:
                    for chunk in response.iter_bytes():
                        file.write(chunk)
                return Answer.of(response, b"")
        except httpx.RequestError as error:
            return NoAnswer.of(error, self.url)


class Experiment:
    """An experiment in the service, with the methods of ``glcb.Bandit``.

    Returned by :meth:`Client.create` and :meth:`Client.experiment`. Methods that
    change the experiment return it as it is after the change.
    """

    def __init__(self, client: Client, name: str) -> None:
        self.name = name
        self._client = client

    # ---- decisions and rewards ------------------------------------------------------------------

    def decide(
        self, context: Any, *, eligible: Iterable[str] | None = None, idempotency_key: str | None = None
    ) -> Decision:
        """Choose an arm for a context.

        Parameters
        ----------
        context
            A dict, a row of a data frame, or a list or array of values.
        eligible
            The arms to choose from; None for all.
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
        InvalidInput
            If the idempotency key was used before with a different request.
        NotRunning
            If the experiment is paused or archived.
        ServiceUnavailable
            If the service did not respond.
        """
        return self._request(_requests.decide(self.name, context, eligible, idempotency_key), Decision)

    def decide_many(
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
        return self._send_batches(requests, count, lambda response: _requests.parse_batch(response, Decision))

    def reward(self, decision: str, value: float, *, idempotency_key: str | None = None) -> bool:
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
        response = self._client._send(_requests.reward(self.name, decision, value, idempotency_key))
        return _requests.was_accepted(parse(response, RewardAccepted), response)

    def reward_many(self, rewards: Iterable[Reward]) -> list[bool | GlcbError]:
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
        return self._send_batches(requests, count, _requests.parse_accepted)

    def explain(self, context: Any, *, eligible: Iterable[str] | None = None) -> Explanation:
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
        return self._request(_requests.explain(self.name, context, eligible), Explanation)

    # ---- arms and state -------------------------------------------------------------------------

    def add_arm(self, name: str, *, like: str | None = None) -> ExperimentInfo:
        """Add an arm.

        Parameters
        ----------
        name
            Name of the new arm.
        like
            An arm whose learned state the new arm copies; None for an untrained arm.

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
        return self._request(_requests.add_arm(self.name, name, like), ExperimentInfo)

    def remove_arm(self, name: str) -> ExperimentInfo:
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
        return self._request(_requests.remove_arm(self.name, name), ExperimentInfo)

    def change(
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
        return self._request(request, ExperimentInfo)

    def pause(self) -> ExperimentInfo:
        """Refuse decisions until :meth:`resume`; rewards are still accepted."""
        return self._request(_requests.change(self.name, state="paused"), ExperimentInfo)

    def resume(self) -> ExperimentInfo:
        """Accept decisions again."""
        return self._request(_requests.change(self.name, state="running"), ExperimentInfo)

    def archive(self) -> ExperimentInfo:
        """Refuse decisions and rewards; everything can still be read."""
        return self._request(_requests.change(self.name, state="archived"), ExperimentInfo)

    def delete(self) -> None:
        """Delete the experiment with its decisions, rewards and model."""
        self._client._send(_requests.delete(self.name))

    # ---- information ----------------------------------------------------------------------------

    def info(self) -> ExperimentInfo:
        """Return the settings, state, counts and health of the experiment."""
        return self._request(_requests.info(self.name), ExperimentInfo)

    def stats(self) -> Stats:
        """Return lift, match rate, arms, history, features, refused requests, latency and health."""
        return self._request(_requests.stats(self.name), Stats)

    @property
    def arms(self) -> tuple[str, ...]:
        """The current arms. Sends a request."""
        return tuple(self.info().settings.arms)

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
