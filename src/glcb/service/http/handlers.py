"""All routes but the hot ones, and the one that is answered even at the start."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route, Router

from glcb._api import requests
from glcb._api.requests import encode
from glcb._api.responses import EXPERIMENT_NAME, Experiments, Explanation
from glcb.service import export, stats, views
from glcb.service.core import limits, models
from glcb.service.core.engine import Engine
from glcb.service.core.experiment import Experiment
from glcb.service.core.live import Activity
from glcb.service.errors import Problem
from glcb.service.http import access, openapi, wire
from glcb.service.http import fast_path as hot
from glcb.service.http.operations import ALIVE, OPERATIONS, Operation
from glcb.service.http.static import pages
from glcb.service.storage.storage import Storage
from glcb.service.work import in_thread

T = TypeVar("T")


class Cold:
    """One method for each operation of the table, called by its name."""

    def __init__(self, engine: Engine, storage: Storage, door: access.Door) -> None:
        self._engine = engine
        self._storage = storage
        self._door = door
        self._document = encode(openapi.document())
        routes = [self._route(one) for one in OPERATIONS if one.path not in (*hot.PATHS, ALIVE)]
        self.app = Router([*routes, pages().route], redirect_slashes=False)

    def _route(self, operation: Operation) -> Route:
        act: Callable[[Request], Awaitable[Response]] = getattr(self, operation.name)

        async def endpoint(request: Request) -> Response:
            request.scope["glcb.route"] = operation.path
            key = await self._door.who(request.scope) if operation.role else None
            if key is not None and operation.role is not None:
                access.check(key, operation.role, request.path_params.get("name"))
                request.scope["glcb.experiment"] = request.path_params.get("name")
            request.state.key = key
            response = await act(request)
            wire.secure(response.raw_headers)
            return response

        path = operation.path.replace("{arm}", "{arm:path}")
        return Route(path, endpoint, methods=[operation.method], name=operation.name)

    async def _body(self, request: Request, kind: type[T]) -> T:
        wire.check_json(request.scope)
        settings = self._engine.settings
        content = await wire.body(request.scope, request.receive, settings.max_body, settings.request_seconds)
        return wire.decoded(content, kind)

    async def _shown(self, name: str, status: int = 200) -> Response:
        return _json(await self._engine.look(name, views.experiment), status)

    # ---- experiments ----------------------------------------------------------------------------

    async def create(self, request: Request) -> Response:
        """Create an experiment, or find it as it should be."""
        settings = await self._body(request, requests.Settings)
        name = _named(request)
        if not EXPERIMENT_NAME.fullmatch(name):
            raise Problem(
                "invalid_request",
                "the name of an experiment must be 1 to 64 of a to z, 0 to 9, _ and -, the first a letter or "
                f"digit, got {name[:80]!r}",
            )
        view, new = await self._engine.create(name, settings)
        return _json(view, 201 if new else 200)

    async def list_all(self, request: Request) -> Response:
        """List the experiments."""
        return _json(Experiments(tuple(await self._engine.listed(request.state.key.sees))))

    async def show(self, request: Request) -> Response:
        """Show an experiment."""
        return await self._shown(_named(request))

    async def change(self, request: Request) -> Response:
        """Change the state or settings of an experiment."""
        changes = await self._body(request, requests.Changes)
        return _json(await self._engine.change(_named(request), changes))

    async def delete(self, request: Request) -> Response:
        """Delete an experiment."""
        await self._engine.delete(_named(request))
        return Response(status_code=204)

    async def add_arm(self, request: Request) -> Response:
        """Add an arm."""
        await self._engine.happens(_named(request), "add_arm", await self._body(request, requests.NewArm))
        return await self._shown(_named(request), 201)

    async def remove_arm(self, request: Request) -> Response:
        """Remove an arm."""
        arm = requests.NewArm(name=request.path_params["arm"])
        await self._engine.happens(_named(request), "remove_arm", arm)
        return await self._shown(_named(request))

    # ---- decisions and rewards ------------------------------------------------------------------

    async def decide_many(self, request: Request) -> Response:
        """Decide many times."""
        asked = (await self._body(request, requests.DecisionRequests)).decisions
        limits.check_items(len(asked), self._engine.settings)
        return await self._each(_named(request), "decide", asked)

    async def reward_many(self, request: Request) -> Response:
        """Take many rewards."""
        given = (await self._body(request, requests.RewardRequests)).rewards
        limits.check_items(len(given), self._engine.settings)
        return await self._each(_named(request), "reward", given)

    async def _each(self, name: str, kind: str, requests: Sequence[Any]) -> Response:
        """Return what became of each of many things: refusals stand in place of answers."""
        parts = []
        for result in await self._engine.happen(name, kind, requests):
            if isinstance(result, Problem):
                self._engine.refused(name, result)
                result = wire.refusal(result)
            parts.append(result)
        return Response(b'{"results":[' + b",".join(parts) + b"]}", media_type="application/json")

    # ---- looking --------------------------------------------------------------------------------

    async def explain(self, request: Request) -> Response:
        """Explain a decision without making it."""
        asked = await self._body(request, requests.ExplainRequest)

        def explained(seen: Experiment) -> Explanation:
            limits.check(seen, "explain", asked, self._engine.settings)
            return views.explanation(seen, asked)

        return _json(await self._engine.look(_named(request), explained))

    async def stats(self, request: Request) -> Response:
        """Show how an experiment fares."""
        name = _named(request)
        activity = self._engine.activity.get(name) or Activity()
        return _json(await self._engine.look(name, lambda seen: stats.stats(seen, activity)))

    async def export(self, request: Request) -> Response:
        """Stream all decisions and rewards."""
        form, after = export.checked(request.query_params)
        number = self._engine.number(_named(request))
        stream = export.stream(self._storage, number, form, after)
        return StreamingResponse(stream, media_type=export.MEDIA[form])

    async def download(self, request: Request) -> Response:
        """Download the bandit."""
        copy = await self._engine.look(_named(request), lambda seen: seen.bandit.__getstate__())
        content = await in_thread(models.as_file, copy)  # while others go on
        return Response(content, media_type="application/octet-stream")

    async def upload(self, request: Request) -> Response:
        """Put another bandit in the place of the experiment's own."""
        said = (wire.header(request.scope, b"content-type") or b"").partition(b";")[0].strip().lower()
        if said != b"application/octet-stream":
            raise Problem(
                "unsupported_media_type", "a model is sent with Content-Type: application/octet-stream"
            )
        self._engine.number(_named(request))
        settings = self._engine.settings
        content = await wire.body(
            request.scope, request.receive, settings.max_model, 10 * settings.request_seconds
        )
        await self._engine.upload(_named(request), content)
        return await self._shown(_named(request))

    # ---- the service itself ---------------------------------------------------------------------

    async def ready(self, _request: Request) -> Response:
        """Tell whether requests can be answered."""
        trouble = self._engine.journal.trouble
        if trouble is not None:
            raise Problem("storage_unavailable", trouble)
        return _json(requests.Status("ready"))

    async def metrics(self, request: Request) -> Response:
        """Show numbers for Prometheus."""
        # A bandit that is busy lets those wait who want its counts.
        content = await in_thread(self._engine.metrics.text, request.state.key.sees)
        return Response(content, media_type="text/plain; version=0.0.4")

    async def openapi(self, _request: Request) -> Response:
        """Show the document of the API."""
        return Response(self._document, media_type="application/json")

    async def home(self, _request: Request) -> Response:
        """Show a page for people."""
        return pages().home()


def _named(request: Request) -> str:
    name: str = request.path_params["name"]
    return name


def _json(content: object, status: int = 200) -> Response:
    return Response(encode(content), status, media_type="application/json")
