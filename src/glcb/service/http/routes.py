"""All routes except single decisions: authentication, admission and bodies."""

from typing import Protocol

from starlette.convertors import StringConvertor, register_url_convertor
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, Router

from glcb.service.access.api_keys import ApiKey, Role
from glcb.service.config import ServiceSettings
from glcb.service.errors import ApiError
from glcb.service.http import decisions, wire
from glcb.service.http.admission import Admission, Lease
from glcb.service.http.authentication import Authenticator, authorize
from glcb.service.http.operations import LIVENESS, OPERATIONS, Operation
from glcb.service.http.people import SessionHandlers
from glcb.service.http.static import pages


class _AnyText(StringConvertor):
    """Matches the rest of a path, even if it has slashes and line breaks."""

    regex = "(?s:.+)"


register_url_convertor("glcb_text", _AnyText())


class Answers(Protocol):
    """Answers the requests of all routes."""

    def experiment_of(self, key: ApiKey) -> str:
        """Return the experiment of a Personalizer request."""

    def require(self, name: str) -> None:
        """Raise ApiError if it is known already that there is no such experiment."""

    async def answer(self, operation: Operation, request: Request) -> Response:
        """Answer a request; ``request.state`` has its API key and its body in bytes."""


class Routes:
    """Routes requests that are permitted, complete and admitted.

    Parameters
    ----------
    answers
        Answers them.
    sessions
        Answers those with which people sign in and out.
    settings
        The limits of bodies.
    authenticator
        Finds the API key of a request.
    admission
        Limits the requests at the same time and the memory of their bodies.
    """

    def __init__(
        self,
        answers: Answers,
        sessions: SessionHandlers,
        settings: ServiceSettings,
        authenticator: Authenticator,
        admission: Admission,
    ) -> None:
        self._answers = answers
        self._sessions = sessions
        self._settings = settings
        self._authenticator = authenticator
        self._admission = admission
        routes = [self._route(one) for one in OPERATIONS if one.path not in (*decisions.PATHS, LIVENESS)]
        self.app = Router([*routes, pages().route], redirect_slashes=False)

    def _route(self, operation: Operation) -> Route:
        async def endpoint(request: Request) -> Response:
            request.scope["glcb.route"] = operation.path
            if operation.role is not None:
                await self._admit(request, operation, operation.role)
            response = await self._answer(operation, request)
            wire.add_security_headers(response.raw_headers)
            return response

        path = operation.path.replace("{arm}", "{arm:glcb_text}")
        if operation.is_personalizer:
            path = path.replace("{id}", "{id:glcb_text}")
        return Route(path, endpoint, methods=[operation.method], name=operation.name)

    async def _answer(self, operation: Operation, request: Request) -> Response:
        if operation.is_session:
            response: Response = await getattr(self._sessions, operation.name)(request)
            return response
        return await self._answers.answer(operation, request)

    async def _admit(self, request: Request, operation: Operation, role: Role) -> None:
        """Admit a request that needs an API key, once its body is complete and it has a slot."""
        key = request.scope["glcb.key"] = await self._authenticator.authenticate(request.scope)
        if operation.is_personalizer:
            name: str | None = self._answers.experiment_of(key)
        else:
            name = request.path_params.get("name")
        also = operation.also
        authorize(key, also if also is not None and key.has_role(also) else role, name)
        request.scope["glcb.experiment"] = name
        lease = request.scope["glcb.lease"] = self._admission.lease(key, name)
        request.state.key = key
        if operation.body is bytes:
            request.state.content = await self._model_file(request, lease, name or "")
        else:
            if operation.body is not None:
                wire.check_json(request.scope)
            settings = self._settings
            # Even if no body is expected: it may turn out to be invalid HTTP.
            request.state.content = await wire.read_body(
                request.scope, request.receive, settings.max_body_bytes, settings.request_seconds, lease.take
            )
        lease.enter("decisions" if operation.is_decision else "others")

    async def _model_file(self, request: Request, lease: Lease, name: str) -> bytes:
        if wire.media_type(request.scope) != b"application/octet-stream":
            raise ApiError(
                "unsupported_media_type",
                "the body must be a model file: send Content-Type: application/octet-stream",
            )
        self._answers.require(name)  # refuse an unknown experiment before reading the body
        settings = self._settings
        return await wire.read_body(
            request.scope,
            request.receive,
            settings.max_model_bytes,
            10 * settings.request_seconds,
            lease.take,
        )
