"""The asynchronous client."""

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Self, Unpack

import anyio
import httpx

from glcb._api.requests import CreationArguments
from glcb._api.responses import ExperimentInfo, ExperimentList
from glcb._api.workers import WorkerList
from glcb.client import _requests
from glcb.client._direct import Owners
from glcb.client._requests import Request, Response, parse
from glcb.client._retries import Answer, Attempts, NoAnswer, RetryPolicy
from glcb.client.async_experiment import AsyncExperiment


class AsyncClient:
    """A client for the decision service, for asyncio and Trio.

    A client can be shared by tasks. Use it in ``async with``, or call :meth:`aclose`, to close its
    connections.

    Parameters
    ----------
    url
        Address of the service, such as ``"http://localhost:8000"``.
    api_key
        An API key created with ``glcb keys add``. A service on localhost without API keys needs none.
    timeout
        Timeout in seconds, for connecting, sending and receiving separately.
    retry_for
        Seconds for which a request is retried when the service does not respond or is not ready; 0 for a
        single attempt. Every decision and reward carries an idempotency key, so that retries are safe.
    direct
        Whether to send requests directly to the worker that owns their experiment, if the service has several
        and its setting ``advertise`` permits it. If a worker cannot be reached, requests go to ``url``.
    transport
        An httpx transport, for tests and special network setups.

    Raises
    ------
    InvalidSettings
        If an argument is invalid.

    Examples
    --------
    ::

        async with AsyncClient("http://localhost:8000") as client:
            homepage = await client.create("homepage", ["sports", "news"], reward_timeout=3600)
            decision = await homepage.decide({"country": "FR", "age": 31})
            await homepage.reward(decision.id, 1)
    """

    def __init__(
        self,
        url: str,
        api_key: str | None = None,
        *,
        timeout: float = 10.0,
        retry_for: float = 30.0,
        direct: bool = False,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self.url = url
        self._retry_policy = RetryPolicy.checked(retry_for)
        self._owners: Owners | None = None
        self._http = httpx.AsyncClient(**_requests.httpx_options(url, api_key, timeout), transport=transport)
        if direct:
            self._owners = Owners(url)

    async def create(
        self,
        name: str,
        arms: Sequence[str] | Mapping[str, Mapping[str, Any] | None],
        **settings: Unpack[CreationArguments],
    ) -> AsyncExperiment:
        """Create an experiment, or return it if it exists with the same settings.

        Parameters
        ----------
        name
            Name of the experiment: 1 to 64 characters from a–z, 0–9, ``_`` and ``-``.
        arms
            Names of the arms, or the features of each arm by name. With features, arms share what is learned.
        **settings
            The arguments of ``glcb.Bandit``, and the other fields of ``ExperimentSettings``.

        Returns
        -------
        AsyncExperiment
            The experiment.

        Raises
        ------
        InvalidSettings
            If a setting is invalid, or the experiment exists with different settings.
        NotSupported
            If the policy does not support one of the settings.
        """
        parse(await self._send(_requests.create(name, arms, settings)), ExperimentInfo)
        return self.experiment(name)

    def experiment(self, name: str) -> AsyncExperiment:
        """Return a handle to an experiment without sending a request.

        Parameters
        ----------
        name
            Name of the experiment.

        Returns
        -------
        AsyncExperiment
            The experiment; its methods raise ``UnknownExperiment`` if it does not exist.
        """
        return AsyncExperiment(self, name)

    async def experiments(self) -> tuple[ExperimentInfo, ...]:
        """Return all experiments that the API key may access.

        Returns
        -------
        tuple of ExperimentInfo
            The experiments, by name.
        """
        return parse(await self._send(_requests.list_experiments()), ExperimentList).experiments

    async def workers(self) -> WorkerList:
        """Return the workers of the service, if it has several.

        Returns
        -------
        WorkerList
            The workers.
        """
        return parse(await self._send(_requests.list_workers()), WorkerList)

    async def restart_workers(self) -> WorkerList:
        """Restart all workers, one after the other, without rejecting a request. It does not wait for that.

        Returns
        -------
        WorkerList
            The workers before the restart.

        Raises
        ------
        NotSupported
            If the service is one process.
        """
        return parse(await self._send(_requests.restart_workers()), WorkerList)

    async def drain_worker(self, worker: str, *, draining: bool = True) -> WorkerList:
        """Let all experiments leave a worker, and none come back. It does not wait for that.

        Parameters
        ----------
        worker
            The name of the worker.
        draining
            False to let the worker have experiments again.

        Returns
        -------
        WorkerList
            The workers.

        Raises
        ------
        ServiceError
            If there is no such worker.
        NotSupported
            If the service is one process.
        """
        return parse(await self._send(_requests.drain_worker(worker, draining)), WorkerList)

    async def move_experiment(self, name: str, worker: str | None) -> WorkerList:
        """Move an experiment to a worker, where it stays; the others of its partition move, too.

        Parameters
        ----------
        name
            The experiment.
        worker
            The name of the worker; None for any.

        Returns
        -------
        WorkerList
            The workers. It does not wait for the move.

        Raises
        ------
        UnknownExperiment
            If there is no such experiment.
        ServiceError
            If there is no such worker.
        NotSupported
            If the service is one process.
        """
        return parse(await self._send(_requests.move_experiment(name, worker)), WorkerList)

    async def aclose(self) -> None:
        """Close all connections."""
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def __repr__(self) -> str:
        return f"AsyncClient({self.url!r})"

    async def _send(self, request: Request) -> Response:
        """Send a request; retry while that is safe and useful."""
        attempts = Attempts(request, self._retry_policy)
        while True:
            outcome = await self._exchange(request)
            pause = attempts.next_pause(outcome)
            if pause is None:
                assert isinstance(outcome, Answer)
                return attempts.response(outcome)
            await anyio.sleep(pause)

    async def _exchange(self, request: Request) -> Answer | NoAnswer:
        """Send a request once: to the owner of its experiment if that is known, otherwise to the service."""
        owners = self._owners
        if owners is None:
            return await self._exchange_at(request, None)
        if owners.wants_to_learn(request.path):
            answer = await self._exchange_at(_requests.list_workers(), None)
            if isinstance(answer, Answer) and answer.status == 200:
                owners.learn(parse(Response(answer.content), WorkerList))
            else:
                owners.learn(None)
        url = owners.url(request.path)
        outcome = await self._exchange_at(request, url)
        if url is not None and isinstance(outcome, NoAnswer):
            owners.fail()
            if not outcome.sent:
                return await self._exchange_at(request, None)
        return outcome

    async def _exchange_at(self, request: Request, url: str | None) -> Answer | NoAnswer:
        """Send a request once, to the service by default."""
        try:
            async with self._http.stream(**request.httpx_arguments(url)) as response:
                if url is not None and self._owners is not None:
                    self._owners.note_answer(response)
                if request.download is None or not response.is_success:
                    return Answer.of(response, await response.aread())
                with request.download.open() as file:
                    async for chunk in response.aiter_bytes():
                        file.write(chunk)
                return Answer.of(response, b"")
        except httpx.RequestError as error:
            return NoAnswer.of(error, url or self.url)
