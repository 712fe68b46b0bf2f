"""The client whose answers are awaited; runs on asyncio and on Trio."""

from collections.abc import Callable, Coroutine, Sequence
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar, Unpack

import anyio
import httpx
from msgspec.structs import asdict

from glcb._api.responses import ExperimentInfo
from glcb.client import http
from glcb.client.methods import named_after
from glcb.client.talk import Answer, Lost, Pause, Request, Talk
from glcb.client.verbs import ExperimentVerbs, ServiceVerbs, Settings

P = ParamSpec("P")
T = TypeVar("T")


class AsyncClient:
    """A service, at its URL: as :class:`glcb.client.Client`, to be awaited."""

    def __init__(
        self,
        url: str,
        api_key: str | None = None,
        *,
        timeout: float = 10.0,
        retry_for: float = 30.0,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self.url = url
        self._retries = http.retries(retry_for)
        self._http = httpx.AsyncClient(**http.options(url, api_key, timeout), transport=transport)

    async def create(self, name: str, arms: Sequence[str], **settings: Unpack[Settings]) -> "AsyncExperiment":
        """Create an experiment, or find it if it is there with the same settings."""
        await self._run(ServiceVerbs(self._retries).create(name, arms, settings))
        return self.experiment(name)

    def experiment(self, name: str) -> "AsyncExperiment":
        """Return an experiment by its name; nothing is asked of the service yet."""
        return AsyncExperiment(self, name)

    async def experiments(self) -> tuple[ExperimentInfo, ...]:
        """Return how all experiments stand that the key may see."""
        return await self._run(ServiceVerbs(self._retries).experiments())

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

    async def _run(self, talk: Talk[T]) -> T:
        outcome: Answer | Lost | None = None
        while True:
            try:
                step = talk.send(outcome)
            except StopIteration as end:
                result: T = end.value
                return result
            outcome = await self._do(step)

    async def _do(self, step: Request | Pause) -> Answer | Lost | None:
        if isinstance(step, Pause):
            await anyio.sleep(step.seconds)
            return None
        try:
            async with self._http.stream(**http.arguments(step)) as response:
                if step.into is None or not response.is_success:
                    return http.answer(response, await response.aread())
                with step.into.replaced() as file:
                    async for piece in response.aiter_bytes():
                        file.write(piece)
                return http.answer(response, b"")
        except httpx.RequestError as error:
            return http.lost(self.url, error)


def _awaiting(
    verb: Callable[Concatenate[ExperimentVerbs, P], Talk[T]],
) -> Callable[Concatenate["AsyncExperiment", P], Coroutine[Any, Any, T]]:
    """Return a method that carries out what ``verb`` describes."""

    async def method(self: "AsyncExperiment", /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._client._run(verb(self._verbs, *args, **kwargs))

    return named_after(verb, method)


class AsyncExperiment:
    """An experiment of a service, with the verbs of ``glcb.Bandit``, to be awaited."""

    def __init__(self, client: AsyncClient, name: str) -> None:
        self.name = name
        self._client = client
        self._verbs = ExperimentVerbs(name, client._retries)

    decide = _awaiting(ExperimentVerbs.decide)
    reward = _awaiting(ExperimentVerbs.reward)
    decide_many = _awaiting(ExperimentVerbs.decide_many)
    reward_many = _awaiting(ExperimentVerbs.reward_many)
    explain = _awaiting(ExperimentVerbs.explain)

    add_arm = _awaiting(ExperimentVerbs.add_arm)
    remove_arm = _awaiting(ExperimentVerbs.remove_arm)
    change = _awaiting(ExperimentVerbs.change)
    pause = _awaiting(ExperimentVerbs.pause)
    resume = _awaiting(ExperimentVerbs.resume)
    archive = _awaiting(ExperimentVerbs.archive)
    delete = _awaiting(ExperimentVerbs.delete)

    info = _awaiting(ExperimentVerbs.info)
    stats = _awaiting(ExperimentVerbs.stats)
    export = _awaiting(ExperimentVerbs.export)
    save_model = _awaiting(ExperimentVerbs.save_model)
    load_model = _awaiting(ExperimentVerbs.load_model)

    async def arms(self) -> tuple[str, ...]:
        """Return the arms as they are now."""
        return (await self.info()).arms

    async def counts(self) -> dict[str, int]:
        """Return how many decisions were issued, and of these rewarded, expired and waiting."""
        return asdict((await self.info()).counts)

    async def reward_counts(self) -> dict[str, int]:
        """Return the number of rewards learned so far, for each arm."""
        return (await self.info()).reward_counts

    def __repr__(self) -> str:
        return f"AsyncExperiment({self.name!r} of {self._client!r})"
