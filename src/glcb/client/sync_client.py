# Generated from async_client.py by scripts/unasync.py; do not edit.
"""The synchronous client."""

import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import Any, Literal, Self

import httpx
from msgspec import UNSET, UnsetType

from glcb._api.guardrails import Guardrail, Metric
from glcb._api.requests import ExperimentSettings
from glcb._api.responses import ExperimentInfo, ExperimentList
from glcb._api.shards import NodeInfo, ShardList
from glcb.bandit.config import BanditConfig
from glcb.client import _requests
from glcb.client._requests import Request, Response, parse
from glcb.client._retries import Answer, Attempts, NoAnswer, RetryPolicy
from glcb.client.sync_experiment import Experiment


class Client:
    """A client for the decision service.

    A client can be shared by threads. Use it in ``with``, or call :meth:`close`, to close its
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
        arms: Sequence[str] | Mapping[str, Mapping[str, Any] | None],
        *,
        policy: str = BanditConfig.policy,
        policy_settings: Mapping[str, Any] | None = BanditConfig.policy_settings,
        rewards: Literal["binary"] | tuple[float, float] = BanditConfig.rewards,
        exploration: float = BanditConfig.exploration,
        exploration_mode: Literal["gap", "uniform"] = BanditConfig.exploration_mode,
        schema: Mapping[str, Any] | None = BanditConfig.schema,
        spare_slots: int | None = BanditConfig.spare_slots,
        arm_schema: Mapping[str, Any] | None = BanditConfig.arm_schema,
        slots: int = BanditConfig.slots,
        max_pending: int = BanditConfig.max_pending,
        reward_timeout: float | None = BanditConfig.reward_timeout,
        default_reward: float | None = BanditConfig.default_reward,
        reward_aggregation: Literal["first", "last", "max", "sum"] = BanditConfig.reward_aggregation,
        half_life: int | None = BanditConfig.half_life,
        seed: int = BanditConfig.seed,
        shares: Mapping[str, tuple[float, float]] | None = BanditConfig.shares,
        holdout: float = 0.05,
        control: str | UnsetType | None = UNSET,
        baseline: Literal["random", "control"] | UnsetType | None = UNSET,
        traffic: float | UnsetType | None = UNSET,
        shadow: bool | UnsetType | None = UNSET,
        start_at: datetime | UnsetType | None = UNSET,
        end_at: datetime | UnsetType | None = UNSET,
        metrics: Mapping[str, Metric] | UnsetType | None = UNSET,
        guardrails: Sequence[Guardrail] | UnsetType | None = UNSET,
        trust_publishable: bool | UnsetType | None = UNSET,
        description: str | UnsetType | None = UNSET,
        owner: str | UnsetType | None = UNSET,
        hypothesis: str | UnsetType | None = UNSET,
        reward_unit: str | UnsetType | None = UNSET,
        segments: Sequence[str] | UnsetType | None = UNSET,
    ) -> Experiment:
        """Create an experiment, or return it if it exists with the same settings.

        The arguments up to ``shares`` are those of ``glcb.Bandit``.

        Parameters
        ----------
        name
            Name of the experiment: 1 to 64 characters from a–z, 0–9, ``_`` and ``-``.
        arms
            Names of the arms, or the features of each arm by name. With features, arms share what is learned.
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
            Declared features, by name: a kind, a range, a list of categories, or the JSON form of one of
            these. Others are inferred.
        spare_slots
            Number of slots for values and features that appear later. By default it depends on the first
            context.
        arm_schema
            Declared features of arms, like `schema`. Only for arms with features.
        slots
            Number of positions of a ranking. If it is more than 1, the position is a feature.
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
        shares
            Lowest and highest probability of arms in every decision, by name; in a ranking, of the first
            slot.
        holdout
            Share of decisions that are served the baseline. By default, they are made uniformly at random, as
            a control group for the lift.
        control
            The control arm. A decision can have its own.
        baseline
            What the holdout, and the traffic that the bandit does not decide, are served.
        traffic
            Share of the traffic that the bandit decides. The rest is part of the holdout.
        shadow
            Whether everybody is served the control. What the bandit would have done is logged.
        start_at
            Time before which no decisions are made, with a time zone.
        end_at
            Time from which on no decisions are made, with a time zone.
        metrics
            Numbers that are reported with rewards, by name.
        guardrails
            Metrics that must not fall.
        trust_publishable
            Whether guardrails count what publishable API keys report. Visitors can then break them.
        description
            What the experiment is about.
        owner
            Who is responsible for it.
        hypothesis
            What it is to find out.
        reward_unit
            The unit of the reward, such as €, % or s.
        segments
            The features whose values are segments in the statistics, at most eight. By default, the service
            chooses them.

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
            arms=_requests.named_arms(arms),
            policy=policy,
            policy_settings=policy_settings,
            rewards=rewards,
            exploration=exploration,
            exploration_mode=exploration_mode,
            schema=schema,
            spare_slots=spare_slots,
            arm_schema=arm_schema,
            slots=slots,
            max_pending=max_pending,
            reward_timeout=reward_timeout,
            default_reward=default_reward,
            reward_aggregation=reward_aggregation,
            half_life=half_life,
            seed=seed,
            shares=_requests.plain_mapping(shares),
            holdout=holdout,
            control=control,
            baseline=baseline,
            traffic=traffic,
            shadow=shadow,
            start_at=start_at,
            end_at=end_at,
            metrics=_requests.plain_mapping(metrics),
            guardrails=_requests.plain_list(guardrails),
            trust_publishable=trust_publishable,
            description=description,
            owner=owner,
            hypothesis=hypothesis,
            reward_unit=reward_unit,
            segments=_requests.plain_list(segments),
        )
        parse(self._send(_requests.create(name, settings)), ExperimentInfo)
        return self.experiment(name)

    def experiment(self, name: str) -> Experiment:
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

    def shards(self) -> ShardList:
        """Return the processes that have the experiments, if there are several, and their nodes.

        Returns
        -------
        ShardList
            The shards and the nodes.
        """
        return parse(self._send(_requests.list_shards()), ShardList)

    def restart_shards(self) -> ShardList:
        """Restart all shards, one after the other, without refusing a request. It does not wait for that.

        Returns
        -------
        ShardList
            The shards before the restart; a shard has been restarted once its ``generation`` is larger.

        Raises
        ------
        NotSupported
            If the service is one process.
        """
        return parse(self._send(_requests.restart_shards()), ShardList)

    def drain_node(self, node: str, *, draining: bool = True) -> NodeInfo:
        """Let all shards leave a node of the cluster. It does not wait for that.

        Parameters
        ----------
        node
            The id of the node, the beginning of it, its address or its host name.
        draining
            False to let the node have shards again.

        Returns
        -------
        NodeInfo
            The node.

        Raises
        ------
        ServiceError
            If there is no such node, or several.
        NotSupported
            If the service is one process.
        """
        return parse(self._send(_requests.drain_node(node, draining)), NodeInfo)

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
