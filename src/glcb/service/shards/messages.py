"""Messages between front ends and shards. Ray copies them between processes and machines."""

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from glcb._api.requests import DecisionRequest
from glcb.service.access.api_keys import ApiKey
from glcb.service.config import ServiceSettings
from glcb.service.core.guard import RecordedReward
from glcb.service.errors import ApiError
from glcb.service.http.errors import HttpError, allowed_methods_of, status_of
from glcb.service.http.handlers import PartedResponse

_TYPES: dict[str, type[Any]] = {"decide": DecisionRequest, "reward": RecordedReward}
_OWN_HEADERS = (b"content-length", b"content-type")
"""Headers that every response sets itself."""
_DECODERS = {kind: msgspec.json.Decoder(type_) for kind, type_ in _TYPES.items()}


def encode_settings(settings: ServiceSettings) -> bytes:
    """Return settings as they are sent to actors."""
    return msgspec.json.encode(settings)


def decode_settings(content: bytes) -> ServiceSettings:
    """Return settings that were sent to an actor."""
    return known_settings(msgspec.json.decode(content))


def known_settings(values: Mapping[str, Any]) -> ServiceSettings:
    """Return settings that may be those of another version of glcb: what this one does not know is left out.

    >>> known_settings({"port": 80, "setting_of_tomorrow": 1}).port
    80
    """
    names = ServiceSettings.__struct_fields__
    return msgspec.convert({name: values[name] for name in names if name in values}, ServiceSettings)


class Problem(NamedTuple):
    """An error response."""

    code: str
    message: str
    status: int
    allow: str
    field: str | None

    @classmethod
    def of(cls, error: ApiError) -> "Problem":
        """Return an error as it is sent."""
        return cls(error.code, str(error), status_of(error), allowed_methods_of(error), error.field)

    def error(self) -> ApiError:
        """Return the error."""
        return HttpError(*self)


class Item(NamedTuple):
    """A decision or a reward."""

    experiment: str
    kind: str
    content: bytes
    """The request as JSON."""

    def request(self) -> Any:
        """Return the request."""
        return _DECODERS[self.kind].decode(self.content)


Result = bytes | Problem | None
"""An answer or an error; None if it is not there yet."""


class Call(NamedTuple):
    """A request of any other operation, complete and permitted."""

    operation: str
    experiment: str | None
    key: ApiKey
    path: str
    parameters: dict[str, Any]
    query: bytes
    content: bytes

    @classmethod
    def of(cls, operation: str, request: Request) -> "Call":
        """Return a request as it is sent."""
        scope = request.scope
        return cls(
            operation,
            scope["glcb.experiment"],
            request.state.key,
            scope["path"],
            dict(request.path_params),
            scope["query_string"],
            request.state.content,
        )

    def request(self) -> Request:
        """Return the request as the handlers expect it."""
        return Request(
            {
                "type": "http",
                "method": "",
                "path": self.path,
                "query_string": self.query,
                "headers": [],
                "path_params": self.parameters,
                "glcb.experiment": self.experiment,
                "state": {"key": self.key, "content": self.content},
            }
        )


class Reply(NamedTuple):
    """A response."""

    status: int
    media_type: str | None
    content: bytes
    headers: tuple[tuple[bytes, bytes], ...] = ()
    """Further headers, such as a content security policy."""

    @classmethod
    def of(cls, response: Response) -> "Reply":
        """Return a response as it is sent."""
        further = tuple(pair for pair in response.raw_headers if pair[0] not in _OWN_HEADERS)
        body = response.join() if isinstance(response, PartedResponse) else bytes(response.body)
        return cls(response.status_code, response.media_type, body, further)

    def response(self) -> Response:
        """Return the response."""
        response = Response(self.content, self.status, media_type=self.media_type)
        response.raw_headers.extend(self.headers)
        return response


class Pulse(NamedTuple):
    """What a shard says about itself."""

    state: Literal["ready", "starting", "moving", "away"]
    node: str | None
    process: int | None
    experiments: int
    loaded: int
    trouble: str | None
    """Why events cannot be written, if so."""
    generation: int = 0
    """How many processes have had the shard, apart from those that Ray has started again."""
