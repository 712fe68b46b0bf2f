"""Handlers of the routes that are compatible with Azure Personalizer."""

import time
import uuid
from typing import TypeVar

from msgspec.json import Decoder
from starlette.requests import Request
from starlette.responses import Response

from glcb._api.requests import Activation, RewardItem, encode
from glcb._api.responses import Decision, Ranking
from glcb._validation import reward as checked_reward
from glcb.bandit import recorded
from glcb.bandit.slots import slot_id
from glcb.integrations import personalizer
from glcb.service.access.api_keys import ApiKey
from glcb.service.config import ServiceSettings
from glcb.service.core import presentations
from glcb.service.core.experiment import Experiment
from glcb.service.core.rankings import has_catalog
from glcb.service.engine.engine import Engine
from glcb.service.errors import ApiError
from glcb.service.http import wire
from glcb.service.http.backend import Backend
from glcb.service.http.errors import status_of
from glcb.service.http.wire import JsonAnswer

T = TypeVar("T")
_DECISION = Decoder(Decision)
_RANKING = Decoder(Ranking)


class PersonalizerHandlers:
    """One method per operation, called by the operation's name.

    Parameters
    ----------
    engine
        Reads experiments.
    backend
        Applies decisions and rewards.
    """

    def __init__(self, engine: Engine, backend: Backend) -> None:
        self._engine = engine
        self._backend = backend

    def experiment_of(self, key: ApiKey) -> str:
        """Return the experiment of a request: that of its API key.

        Raises
        ------
        ApiError
            The key is not limited to one experiment. Without keys: no setting names the experiment, and there
            is not exactly one.
        """
        named = configured_experiment(self._engine.settings, key)
        if named is not None:
            return named
        existing = list(self._engine.cache.rows)
        if len(existing) != 1:
            raise ApiError(
                "unknown_experiment",
                f"without API keys, Personalizer requests need exactly one experiment, and there are "
                f"{len(existing):,}: name one with `glcb serve --set personalizer_experiment=EXPERIMENT`",
            )
        return existing[0]

    async def rank(self, request: Request) -> Response:
        """Choose one of the actions."""
        body = request.state.body
        event = body.event_id or str(uuid.uuid4())
        shared = await self._has_catalog(request)
        most = self._engine.settings.max_context_bytes
        decision = await self._apply(
            request, "decide", personalizer.decision_request(body, event, shared, most), _DECISION
        )
        return _created(personalizer.rank_response(body, event, decision))

    async def rank_slots(self, request: Request) -> Response:
        """Choose an action for every slot."""
        body = request.state.body
        event = body.event_id or str(uuid.uuid4())
        shared = await self._has_catalog(request)
        most = self._engine.settings.max_context_bytes
        ranking = await self._apply(
            request, "rank", personalizer.ranking_request(body, event, shared, most), _RANKING
        )
        return _created(personalizer.multi_slot_response(body, event, ranking))

    async def reward(self, request: Request) -> Response:
        """Learn the reward of an event."""
        item = RewardItem(id=_decision(request), value=request.state.body.value)
        await self._reward(request, item)
        return Response(status_code=204)

    async def reward_slots(self, request: Request) -> Response:
        """Learn the rewards of some slots; nothing is learned if one of them is invalid."""
        items = personalizer.slot_rewards(request.state.body, request.path_params["id"])

        def rejected_first(experiment: Experiment) -> list[RewardItem]:
            pending = []
            for item in items:
                checked_reward(item.value, experiment.state.settings.rewards)
                numbered = presentations.resolve(experiment.state.presentations, item)
                assert isinstance(numbered.slot, int)  # it has been resolved
                pending.append(recorded.is_pending(experiment.bandit, slot_id(item.id, numbered.slot)))
            return [item for _, item in sorted(zip(pending, items, strict=True), key=lambda pair: pair[0])]

        for item in await self._engine.read(_experiment(request), rejected_first):
            await self._reward(request, item)
        return Response(status_code=204)

    async def activate(self, request: Request) -> Response:
        """Note that an event was shown."""
        await self._backend.apply(_experiment(request), "activate", Activation(id=_decision(request)))
        return Response(status_code=204)

    activate_slots = activate

    async def _has_catalog(self, request: Request) -> bool:
        return await self._engine.read(
            _experiment(request), lambda experiment: has_catalog(experiment.state.settings)
        )

    async def _apply(self, request: Request, kind: str, item: object, answer: Decoder[T]) -> T:
        name, began = _experiment(request), time.perf_counter()
        content = await self._backend.apply(name, kind, item)
        self._engine.activity[name].latency.add(time.perf_counter() - began)
        return answer.decode(content)

    async def _reward(self, request: Request, item: RewardItem) -> None:
        """Apply a reward. A second one has no effect, as with Personalizer's earliest reward."""
        try:
            await self._backend.apply(_experiment(request), "reward", item)
        except ApiError as error:
            if error.code != "duplicate_reward":
                raise


def configured_experiment(settings: ServiceSettings, key: ApiKey) -> str | None:
    """Return the experiment that an API key or a setting names, or None without keys and such a setting.

    Raises
    ------
    ApiError
        The key is not limited to one experiment.
    """
    named = settings.personalizer_experiment
    if key.experiments is not None and len(key.experiments) == 1:
        return key.experiments[0]
    if named is not None and key.can_access(named):
        return named
    if key.name:
        raise ApiError(
            "forbidden",
            "Personalizer requests need an API key that is limited to one experiment: create it with "
            "`glcb keys add NAME --role decide --experiments EXPERIMENT`",
        )
    return None


def error_answer(error: ApiError) -> JsonAnswer:
    """Return an error response in Personalizer's format."""
    plain = wire.error_answer(error)
    status, body = personalizer.error_response(error.code, str(error), status_of(error))
    return JsonAnswer(status, encode(body), plain.headers)


def _experiment(request: Request) -> str:
    name: str = request.scope["glcb.experiment"]
    return name


def _decision(request: Request) -> str:
    return personalizer.decision_id(request.path_params["id"])


def _created(content: object) -> Response:
    return Response(encode(content), 201, media_type="application/json")
