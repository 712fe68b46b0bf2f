"""The client that waits for its answers."""

import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Concatenate, ParamSpec, Self, TypeVar, Unpack

import httpx
from msgspec.structs import asdict

from glcb._api.responses import ExperimentInfo
from glcb.client import http
from glcb.client.methods import named_after
from glcb.client.talk import Answer, Lost, Pause, Request, Talk
from glcb.client.verbs import ExperimentVerbs, ServiceVerbs, Settings

P = ParamSpec("P")
T = TypeVar("T")


class Client:
    """A service, at its URL. Threads may share a client.

    ``api_key`` is one that ``glcb keys add`` has made. Connecting, sending and waiting for an answer may take
    ``timeout`` seconds each. When no answer comes, or it is "not now", the same is sent again, after longer
    and longer pauses, until ``retry_for`` seconds are over. Each decision and each reward has a key of its
    own, so that nothing happens twice.
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
        self._retries = http.retries(retry_for)
        self._http = httpx.Client(**http.options(url, api_key, timeout), transport=transport)

    def create(self, name: str, arms: Sequence[str], **settings: Unpack[Settings]) -> "Experiment":
        """Create an experiment, or find it if it is there with the same settings."""
        self._run(ServiceVerbs(self._retries).create(name, arms, settings))
        return self.experiment(name)

    def experiment(self, name: str) -> "Experiment":
        """Return an experiment by its name; nothing is asked of the service yet."""
        return Experiment(self, name)

    def experiments(self) -> tuple[ExperimentInfo, ...]:
        """Return how all experiments stand that the key may see."""
        return self._run(ServiceVerbs(self._retries).experiments())

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

    def _run(self, talk: Talk[T]) -> T:
        outcome: Answer | Lost | None = None
        while True:
            try:
                step = talk.send(outcome)
            except StopIteration as end:
                result: T = end.value
                return result
            outcome = self._do(step)

    def _do(self, step: Request | Pause) -> Answer | Lost | None:
        if isinstance(step, Pause):
            time.sleep(step.seconds)
            return None
        try:
            with self._http.stream(**http.arguments(step)) as response:
                if step.into is None or not response.is_success:
                    return http.answer(response, response.read())
                with step.into.replaced() as file:
                    for piece in response.iter_bytes():
                        file.write(piece)
                return http.answer(response, b"")
        except httpx.RequestError as error:
            return http.lost(self.url, error)


def _blocking(
    verb: Callable[Concatenate[ExperimentVerbs, P], Talk[T]],
) -> Callable[Concatenate["Experiment", P], T]:
    """Return a method that carries out what ``verb`` describes."""

    def method(self: "Experiment", /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._client._run(verb(self._verbs, *args, **kwargs))

    return named_after(verb, method)


class Experiment:
    """An experiment of a service, with the verbs of ``glcb.Bandit``."""

    def __init__(self, client: Client, name: str) -> None:
        self.name = name
        self._client = client
        self._verbs = ExperimentVerbs(name, client._retries)

    decide = _blocking(ExperimentVerbs.decide)
    reward = _blocking(ExperimentVerbs.reward)
    decide_many = _blocking(ExperimentVerbs.decide_many)
    reward_many = _blocking(ExperimentVerbs.reward_many)
    explain = _blocking(ExperimentVerbs.explain)

    add_arm = _blocking(ExperimentVerbs.add_arm)
    remove_arm = _blocking(ExperimentVerbs.remove_arm)
    change = _blocking(ExperimentVerbs.change)
    pause = _blocking(ExperimentVerbs.pause)
    resume = _blocking(ExperimentVerbs.resume)
    archive = _blocking(ExperimentVerbs.archive)
    delete = _blocking(ExperimentVerbs.delete)

    info = _blocking(ExperimentVerbs.info)
    stats = _blocking(ExperimentVerbs.stats)
    export = _blocking(ExperimentVerbs.export)
    save_model = _blocking(ExperimentVerbs.save_model)
    load_model = _blocking(ExperimentVerbs.load_model)

    @property
    def arms(self) -> tuple[str, ...]:
        """The arms as they are now."""
        return self.info().arms

    @property
    def counts(self) -> dict[str, int]:
        """Decisions issued so far, of these rewarded, expired (no reward will come) and waiting."""
        return asdict(self.info().counts)

    @property
    def reward_counts(self) -> dict[str, int]:
        """Number of rewards learned so far, for each arm."""
        return self.info().reward_counts

    def __repr__(self) -> str:
        return f"Experiment({self.name!r} of {self._client!r})"
