"""Handlers of all routes except single decisions."""

import functools
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from typing import Any

from msgspec.json import Decoder
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from glcb._api import requests
from glcb._api.guardrails import LOCAL, ArmChanges, ArmPause
from glcb._api.requests import EXPERIMENT_NAME, encode
from glcb._api.responses import ExperimentList, Explanation, PublicRanking, Status
from glcb._api.workers import WorkerList
from glcb.service.access.api_keys import ApiKey
from glcb.service.core import limits, models
from glcb.service.core.experiment import Experiment
from glcb.service.engine.engine import Engine
from glcb.service.errors import ApiError
from glcb.service.http import export, openapi, publish, wire
from glcb.service.http.admission import Admission
from glcb.service.http.backend import Backend
from glcb.service.http.operations import OPERATIONS, Operation
from glcb.service.http.personalizer import PersonalizerHandlers
from glcb.service.http.static import pages
from glcb.service.process.background import run_in_thread
from glcb.service.process.metrics import Activity
from glcb.service.storage.database import Database
from glcb.service.views import arms, curves, reports, responses, segments, stats

_Handler = Callable[[Request], Awaitable[Response]]

_BODIES: dict[Any, Decoder[Any]] = {
    one.body: Decoder(one.body) for one in OPERATIONS if one.body not in (None, bytes)
}
_PUBLIC_RANKING = Decoder(PublicRanking)
_MAX_PAGE = 100
"""Largest number of evaluations in one response."""


class PartedResponse(Response):
    """A large response in parts, which are released as soon as they are sent.

    Parameters
    ----------
    parts
        The parts.
    media_type
        What they are.
    """

    def __init__(self, parts: Iterable[bytes | memoryview], media_type: str) -> None:
        self._parts = deque(parts)
        super().__init__(headers={"content-length": str(sum(map(len, self._parts)))}, media_type=media_type)

    async def __call__(self, scope: wire.Scope, receive: wire.Receive, send: wire.Send) -> None:
        """Send the response."""
        start = {"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers}
        await send(start)
        while self._parts:
            part = self._parts.popleft()
            await send({"type": "http.response.body", "body": part, "more_body": bool(self._parts)})


class Handlers:
    """One method per operation, called by the operation's name.

    Parameters
    ----------
    engine
        Applies changes and reads experiments.
    storage
        The database, for exports.
    admission
        Lets requests that are not decisions take turns.
    backend
        Applies decisions and rewards: the engine, which may be traced.
    """

    def __init__(
        self, engine: Engine, storage: Database, admission: Admission, backend: Backend | None = None
    ) -> None:
        self._engine = engine
        self._backend: Backend = engine if backend is None else backend
        self._storage = storage
        self._admission = admission
        self._personalizer = PersonalizerHandlers(engine, self._backend)

    def experiment_of(self, key: ApiKey) -> str:
        """Return the experiment of a Personalizer request."""
        return self._personalizer.experiment_of(key)

    def require(self, name: str) -> None:
        """Raise ApiError if there is no such experiment."""
        self._engine.experiment_id(name)

    async def answer(self, operation: Operation, request: Request) -> Response:
        """Answer a request whose body is complete."""
        owner: object = self._personalizer if operation.is_personalizer else self
        handler: _Handler = getattr(owner, operation.name.removeprefix("personalizer_"))
        if operation.body is bytes:
            request.state.body = request.state.content
        elif operation.body is not None:
            request.state.body = wire.decode(request.state.content, _BODIES[operation.body])
        # An export does not touch the experiment; reading its chunks is limited.
        if operation.role is None or operation.is_decision or operation.name == "export":
            return await handler(request)
        async with self._admission.turn(request.scope["glcb.experiment"]):
            return await handler(request)

    async def _experiment(self, name: str, status: int = 200) -> Response:
        return _json(await self._engine.read(name, responses.experiment_info), status)

    # ---- experiments ----------------------------------------------------------------------------

    async def create(self, request: Request) -> Response:
        """Create an experiment, or return it if it exists with the same settings."""
        settings: requests.ExperimentSettings = request.state.body
        name = _name(request)
        if not EXPERIMENT_NAME.fullmatch(name):
            raise ApiError(
                "invalid_request",
                "an experiment name must be 1 to 64 characters from a–z, 0–9, _ and -, starting with a "
                f"letter or digit, got {name[:80]!r}",
            )
        view, new = await self._engine.create(name, settings, _author(request))
        return _json(view, 201 if new else 200)

    async def list_all(self, request: Request) -> Response:
        """List the experiments that the API key may access."""
        return _json(ExperimentList(tuple(await self._engine.list_experiments(request.state.key.can_access))))

    async def show(self, request: Request) -> Response:
        """Return an experiment."""
        return await self._experiment(_name(request))

    async def change(self, request: Request) -> Response:
        """Change the state or settings of an experiment."""
        return _json(await self._engine.change(_name(request), request.state.body, _author(request)))

    async def delete(self, request: Request) -> Response:
        """Delete an experiment."""
        await self._engine.delete(_name(request), _author(request))
        return Response(status_code=204)

    async def recover(self, request: Request) -> Response:
        """Let a damaged experiment continue from its last good state."""
        return _json(await self._engine.recover(_name(request), _author(request)))

    async def add_arm(self, request: Request) -> Response:
        """Add an arm."""
        await self._engine.apply(_name(request), "add_arm", request.state.body, _author(request))
        return await self._experiment(_name(request), 201)

    async def remove_arm(self, request: Request) -> Response:
        """Remove an arm."""
        arm = requests.NewArm(name=request.path_params["arm"])
        await self._engine.apply(_name(request), "remove_arm", arm, _author(request))
        return await self._experiment(_name(request))

    async def change_arm(self, request: Request) -> Response:
        """Pause or resume an arm."""
        body: ArmChanges = request.state.body
        pause = ArmPause(name=request.path_params["arm"], paused=body.paused, reason=body.reason)
        await self._engine.apply(_name(request), "change_arm", pause, _author(request))
        return await self._experiment(_name(request))

    async def set_arms(self, request: Request) -> Response:
        """Replace all arms with features."""
        await self._engine.apply(_name(request), "set_arms", request.state.body, _author(request))
        return await self._experiment(_name(request))

    async def change_arms(self, request: Request) -> Response:
        """Add, change and remove arms with features."""
        await self._engine.apply(_name(request), "change_arms", request.state.body, _author(request))
        return await self._experiment(_name(request))

    async def list_arms(self, request: Request) -> Response:
        """Return a page of the list of arms."""
        query = arms.parse_query(request.query_params)
        return _json(await self._engine.read(_name(request), lambda experiment: arms.page(experiment, query)))

    # ---- decisions and rewards ------------------------------------------------------------------

    async def rank(self, request: Request) -> Response:
        """Choose several arms."""
        name, key, began = _name(request), request.state.key, time.perf_counter()
        ranking = publish.restricted(key, request.state.body)
        answer = await self._backend.apply(name, "rank", ranking)
        self._engine.activity[name].latency.add(time.perf_counter() - began)
        return Response(publish.visible(key, answer, _PUBLIC_RANKING), media_type="application/json")

    async def rank_many(self, request: Request) -> Response:
        """Make many rankings."""
        rankings = request.state.body.rankings
        limits.check_batch(len(rankings), self._engine.settings)
        return await self._apply_batch(_name(request), "rank", rankings)

    async def decide_many(self, request: Request) -> Response:
        """Make many decisions."""
        decisions = request.state.body.decisions
        limits.check_batch(len(decisions), self._engine.settings)
        return await self._apply_batch(_name(request), "decide", decisions)

    async def reward_many(self, request: Request) -> Response:
        """Report many rewards."""
        rewards = request.state.body.rewards
        limits.check_batch(len(rewards), self._engine.settings)
        return await self._apply_batch(_name(request), "reward", rewards)

    async def _apply_batch(self, name: str, kind: str, items: Sequence[Any]) -> Response:
        """Return one result per item: a response or an error."""
        parts = []
        for result in await self._backend.apply_many(name, kind, items):
            if isinstance(result, ApiError):
                self._engine.count_error(name, result)
                result = wire.error_body(result)
            parts.append(result)
        return Response(b'{"results":[' + b",".join(parts) + b"]}", media_type="application/json")

    async def activate(self, request: Request) -> Response:
        """Activate a deferred decision."""
        activation = requests.Activation(id=request.path_params["id"])
        await self._engine.apply(_name(request), "activate", activation)
        return Response(status_code=204)

    # ---- information ----------------------------------------------------------------------------

    async def explain(self, request: Request) -> Response:
        """Explain a decision without making it."""
        body: requests.ExplanationRequest = request.state.body

        def explanation(experiment: Experiment) -> Explanation:
            limits.check(experiment, "explain", body, encode(body), self._engine.settings)
            return responses.explanation(experiment, body)

        return _json(await self._engine.read(_name(request), explanation))

    async def stats(self, request: Request) -> Response:
        """Return the statistics of an experiment."""
        name = _name(request)
        activity = self._engine.activity.get(name) or Activity()
        return _json(await self._engine.read(name, lambda experiment: stats.stats(experiment, activity)))

    async def curves(self, request: Request) -> Response:
        """Return an experiment over time."""
        query = curves.parse_query(request.query_params)
        return _json(
            await self._engine.read(_name(request), lambda experiment: curves.curves(experiment, query))
        )

    async def segments(self, request: Request) -> Response:
        """Return lift and arms by segment."""
        return _json(await self._engine.read(_name(request), segments.segments))

    async def changes(self, request: Request) -> Response:
        """List the changes of an experiment."""
        limit, before = _page(request)
        found = await self._engine.read(
            _name(request), lambda experiment: responses.changes(experiment, limit, before)
        )
        return _json(found)

    async def export(self, request: Request) -> Response:
        """Stream all decisions and rewards."""
        number = self._engine.experiment_id(_name(request))
        return export_response(self._storage, number, request, self._admission)

    async def download(self, request: Request) -> Response:
        """Return the bandit as a model file."""
        snapshot = await self._engine.read(_name(request), lambda experiment: experiment.bandit._snapshot())
        parts = await run_in_thread(models.model_parts, snapshot)  # without holding the experiment
        return PartedResponse(parts, "application/octet-stream")

    async def upload(self, request: Request) -> Response:
        """Replace the bandit of an experiment."""
        await self._engine.upload(_name(request), request.state.body, _author(request))
        return await self._experiment(_name(request))

    async def report(self, request: Request) -> Response:
        """Return a report as a page, or as a summary for a chat."""
        query = reports.parse_query(request.query_params, time.time())
        read = reports.reader(query.curves)
        report = await self._engine.read(_name(request), read)
        if query.format == "json":
            return _json(report.summary)
        page = await run_in_thread(report.page)  # without holding the experiment
        headers = {"content-security-policy": reports.CONTENT_SECURITY_POLICY}
        return Response(page, headers=headers, media_type="text/html")

    # ---- evaluations ----------------------------------------------------------------------------

    async def start_evaluation(self, request: Request) -> Response:
        """Queue an evaluation."""
        name = _name(request)
        settings = await self._engine.read(name, lambda experiment: experiment.state.settings)
        number = self._engine.experiment_id(name)
        return _json(await self._engine.evaluations.submit(number, settings, request.state.body), 202)

    async def list_evaluations(self, request: Request) -> Response:
        """List the evaluations of an experiment."""
        limit, before = _page(request)
        number = self._engine.experiment_id(_name(request))
        return _json(await self._engine.evaluations.page(number, before or None, limit))

    async def show_evaluation(self, request: Request) -> Response:
        """Return an evaluation."""
        experiment = self._engine.experiment_id(_name(request))
        content = await self._engine.evaluations.show(experiment, _evaluation(request))
        return Response(content, media_type="application/json")

    async def remove_evaluation(self, request: Request) -> Response:
        """Cancel or delete an evaluation."""
        experiment = self._engine.experiment_id(_name(request))
        await self._engine.evaluations.remove(experiment, _evaluation(request))
        return Response(status_code=204)

    # ---- the service itself ---------------------------------------------------------------------

    async def list_workers(self, _request: Request) -> Response:
        """Return an empty list: the service is this process."""
        return _json(WorkerList())

    async def restart_workers(self, _request: Request) -> Response:
        """Reject it: the service is this process."""
        raise _one_process()

    async def change_worker(self, _request: Request) -> Response:
        """Reject it: the service is this process."""
        raise _one_process()

    async def move_experiment(self, _request: Request) -> Response:
        """Reject it: the service is this process."""
        raise _one_process()

    async def ready(self, _request: Request) -> Response:
        """Readiness probe: fail while the database is unavailable or takes too long."""
        trouble = self._engine.journal.trouble()
        if trouble is not None:
            raise ApiError("storage_unavailable", trouble)
        return _json(Status("ready"))

    async def metrics(self, request: Request) -> Response:
        """Return metrics for Prometheus."""
        # In a thread: reading the counts of a bandit waits for its lock.
        content = await run_in_thread(self._engine.metrics.text, request.state.key.can_access)
        return Response(content, media_type="text/plain; version=0.0.4")

    async def openapi(self, _request: Request) -> Response:
        """Return the OpenAPI document."""
        return Response(await run_in_thread(openapi_document), media_type="application/json")

    async def javascript(self, request: Request) -> Response:
        """Return the JavaScript client."""
        return pages().javascript(request)

    async def home(self, _request: Request) -> Response:
        """Return the dashboard."""
        return pages().home()


def _one_process() -> ApiError:
    return ApiError(
        "not_supported", "this service is one process: stop it, and start it with `glcb serve --workers N`"
    )


@functools.cache
def openapi_document() -> bytes:
    """Return the encoded OpenAPI document."""
    return encode(openapi.document())


def export_response(storage: Database, experiment: int, request: Request, admission: Admission) -> Response:
    """Stream an export; only reading its chunks counts as work, not waiting for the client."""
    form, after = export.parse_query(request.query_params)

    async def in_turns(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        while True:
            async with admission.turns:
                chunk = await anext(chunks, None)
            if chunk is None:
                return
            yield chunk

    stream = export.stream(storage, experiment, form, after)
    return StreamingResponse(in_turns(stream), media_type=export.MEDIA_TYPES[form])


def _name(request: Request) -> str:
    name: str = request.path_params["name"]
    return name


def _author(request: Request) -> str:
    """Return who changes an experiment: the name of the API key."""
    return request.state.key.name or LOCAL


def _evaluation(request: Request) -> int:
    """Return the id of the evaluation in the path."""
    text = request.path_params["id"]
    if not _is_natural(text):
        raise ApiError("unknown_evaluation", f"the id of an evaluation is a number, got {text[:80]!r}")
    return int(text)


def _page(request: Request) -> tuple[int, int]:
    """Return the limit of a list, and the id before which it starts, or 0."""
    query = dict(request.query_params)
    limit, before = query.pop("limit", "20"), query.pop("before", "0")
    if query or not (_is_natural(limit) and _is_natural(before) and 1 <= int(limit) <= _MAX_PAGE):
        raise ApiError(
            "invalid_request",
            f"the query must be limit=1 to {_MAX_PAGE} and before=ID, got {dict(request.query_params)!r}",
        )
    return int(limit), int(before)


def _is_natural(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 10


def _json(content: object, status: int = 200) -> Response:
    return Response(encode(content), status, media_type="application/json")
