"""Requests to the service and their responses, without sending anything. Both clients use these functions."""

import contextlib
import difflib
import math
import re
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from os import PathLike
from pathlib import Path
from typing import IO, Any, TypeVar
from urllib.parse import quote, urlencode

import httpx
import msgspec

from glcb._api import decisions, guardrails, reports, responses, statistics, workers
from glcb._api.decoders import decoders_of
from glcb._api.errors import exception_of
from glcb._api.requests import EXPERIMENT_NAME, ChangeArguments, CreationArguments
from glcb._api.responses import (
    BatchResponse,
    ErrorResponse,
    EvaluationInfo,
    EvaluationResult,
    RewardAccepted,
)
from glcb._errors import (
    GlcbError,
    InvalidContext,
    InvalidInput,
    InvalidReward,
    InvalidSettings,
    LogError,
    ModelFileError,
    ServiceError,
    UnknownDecision,
)
from glcb._files import atomic_write
from glcb._version import __version__
from glcb.bandit.config import DECISION_ID
from glcb.client._contexts import arms_to_json, context_to_json, iterate_contexts

T = TypeVar("T")

Reward = tuple[str, float] | tuple[str, float, str] | Mapping[str, Any]
"""The id of a decision, its reward, and optionally an idempotency key; or a mapping with the keys ``id`` and
``value``, and optionally ``slot``, ``examined``, ``metrics`` and ``idempotency_key``."""
_REWARD_FIELDS = ("id", "value", "slot", "examined", "metrics", "idempotency_key")

_DECODERS = decoders_of(decisions, guardrails, reports, responses, statistics, workers)
_JSON = "application/json"
_DECISION_ID = re.compile(DECISION_ID)

_POLL_SECONDS = (0.1, 2.0)
"""The first and the longest pause between two polls of an evaluation."""

# A batch is split into requests that stay below the default limits of the service.
_MAX_ITEMS = 1000
_MAX_BYTES = 900_000


@dataclass(frozen=True)
class Download:
    """A file for the response body."""

    path: Path
    error: type[GlcbError]
    """The exception to raise if the file cannot be written."""

    @contextlib.contextmanager
    def open(self) -> Iterator[IO[bytes]]:
        """Open a temporary file that replaces the target if the download succeeds."""
        try:
            with atomic_write(self.path) as file:
                yield file
        except OSError as error:
            raise self.error(f"cannot write {self.path}: {error.strerror or error}") from error


@dataclass(frozen=True)
class Request:
    """An HTTP request."""

    method: str
    path: str
    content: bytes | None = None
    media_type: str = _JSON
    download: Download | None = None
    """Where to write the body of a successful response."""
    idempotent: bool = True
    """Whether the request can be sent again after it may have reached the service."""

    def httpx_arguments(self, url: str | None = None) -> dict[str, Any]:
        """Return the arguments of ``httpx.Client.stream``; by default, the URL is relative to the service."""
        headers = {} if self.content is None else {"Content-Type": self.media_type}
        return {"method": self.method, "url": url or self.path, "content": self.content, "headers": headers}


@dataclass(frozen=True)
class Response:
    """The body of a successful response."""

    content: bytes
    after_uncertain_attempt: bool = False
    """Whether an earlier attempt may have reached the service as well."""


def httpx_options(url: str, api_key: str | None, timeout: float) -> dict[str, Any]:
    """Return the arguments of ``httpx.Client``."""
    try:
        base = httpx.URL(url)
    except (httpx.InvalidURL, TypeError) as error:
        raise InvalidSettings(f"url must look like http://localhost:8000, got {url!r}: {error}") from None
    if base.scheme not in ("http", "https") or not base.host:
        raise InvalidSettings(f"url must look like http://localhost:8000, got {url!r}")
    if base.path.rstrip("/").endswith("/v1"):
        raise InvalidSettings(f"url must not include /v1, which the client adds, got {url!r}")
    if not timeout > 0:
        raise InvalidSettings(f"timeout must be a positive number of seconds, got {timeout!r}")
    headers = {"User-Agent": f"glcb/{__version__}"}
    if api_key is not None:
        if not (api_key.isascii() and api_key.isprintable() and api_key.strip()):
            raise InvalidSettings("api_key must be a key printed by `glcb keys add`")
        headers["Authorization"] = f"Bearer {api_key.strip()}"
    return {"base_url": base, "timeout": timeout, "headers": headers}


# ---- requests -----------------------------------------------------------------------------------


def list_experiments() -> Request:
    """List all experiments."""
    return Request("GET", "v1/experiments")


def list_workers() -> Request:
    """List the workers."""
    return Request("GET", "v1/workers")


def restart_workers() -> Request:
    """Restart all workers."""
    return Request("POST", "v1/workers/restart", idempotent=False)


def drain_worker(worker: str, draining: bool) -> Request:
    """Drain a worker, or take it back."""
    return Request("PATCH", f"v1/workers/{quote(worker, safe='')}", _encode({"draining": draining}))


def move_experiment(name: str, worker: str | None) -> Request:
    """Move an experiment to a worker."""
    return Request("POST", "v1/workers/move", _encode({"experiment": name, "worker": worker}))


def create(name: str, arms: Any, settings: Mapping[str, Any]) -> Request:
    """Create an experiment; ``arms`` are names, or features by name."""
    named = arms_to_json(arms) if isinstance(arms, Mapping) else list(arms)
    return Request("PUT", _path(name), _encode({"arms": named, **_plain(settings, CreationArguments)}))


def info(name: str) -> Request:
    """Get an experiment."""
    return Request("GET", _path(name))


def change(name: str, settings: Mapping[str, Any], reason: str | None = None) -> Request:
    """Change settings of an experiment; unnamed settings stay unchanged."""
    return _patch(name, _plain(settings, ChangeArguments), reason)


def set_state(name: str, state: str, reason: str | None) -> Request:
    """Pause, resume or archive an experiment."""
    return _patch(name, {"state": state}, reason)


def _patch(name: str, changes: dict[str, Any], reason: str | None) -> Request:
    return Request("PATCH", _path(name), _encode(changes | ({"reason": reason} if reason else {})))


def _plain(settings: Mapping[str, Any], arguments: Any) -> dict[str, Any]:
    """Return JSON-compatible settings; raise TypeError if a setting does not exist."""
    names = arguments.__optional_keys__
    for name in settings.keys() - names:
        close = difflib.get_close_matches(name, names, 1)
        hint = f"did you mean {close[0]}?" if close else f"the settings are {', '.join(sorted(names))}"
        raise TypeError(f"there is no setting {name!r} here: {hint}")
    kinds: list[tuple[type, type]] = [(Mapping, dict), (str, str), (Sequence, list)]
    return {
        name: next((make(value) for kind, make in kinds if isinstance(value, kind)), value)
        for name, value in settings.items()
    }


def recover(name: str) -> Request:
    """Let a damaged experiment continue."""
    return Request("POST", _path(name, "recover"), idempotent=False)


def pause_arm(name: str, arm: str, paused: bool, reason: str | None) -> Request:
    """Pause or resume an arm."""
    body: dict[str, Any] = {"paused": paused, **({} if reason is None else {"reason": reason})}
    return Request("PATCH", _path(name, f"arms/{_segment(arm)}"), _encode(body))


def changes(name: str, limit: int, before: int) -> Request:
    """List the changes of an experiment."""
    return Request("GET", _path(name, f"changes?limit={int(limit)}&before={int(before)}"))


def delete(name: str) -> Request:
    """Delete an experiment."""
    return Request("DELETE", _path(name), idempotent=False)


def decide(
    name: str,
    context: Any,
    arms: Any,
    eligible: Iterable[str] | None,
    decision_id: str | None,
    idempotency_key: str | None,
    **more: Any,
) -> Request:
    """Make a decision. If the caller passes no key, a random one makes retries safe."""
    body = {**_decision_body(context, arms, eligible), "idempotency_key": _key(idempotency_key)}
    body |= _present(more)
    if decision_id is not None:
        body["id"] = decision_id
    return Request("POST", _path(name, "decisions"), _encode(body))


def rank(
    name: str,
    context: Any,
    k: int,
    arms: Any,
    eligible: Iterable[str] | None,
    ranking_id: str | None,
    idempotency_key: str | None,
    **more: Any,
) -> Request:
    """Choose several arms. If the caller passes no key, a random one makes retries safe."""
    body = {**_decision_body(context, arms, eligible), "k": k, "idempotency_key": _key(idempotency_key)}
    body |= _present(more)
    if ranking_id is not None:
        body["id"] = ranking_id
    return Request("POST", _path(name, "rankings"), _encode(body))


def decide_many(
    name: str, contexts: Any, arms: Any, eligible: Iterable[str] | None
) -> tuple[list[Request], int]:
    """Make many decisions; return the requests and the number of contexts."""
    items = list(_items(contexts, arms, eligible))
    return _batches(_path(name, "decisions/batch"), "decisions", items), len(items)


def rank_many(
    name: str, contexts: Any, k: int, arms: Any, eligible: Iterable[str] | None
) -> tuple[list[Request], int]:
    """Make many rankings; return the requests and the number of contexts."""
    items = [{**item, "k": k} for item in _items(contexts, arms, eligible)]
    return _batches(_path(name, "rankings/batch"), "rankings", items), len(items)


def _items(contexts: Any, arms: Any, eligible: Iterable[str] | None) -> Iterator[dict[str, Any]]:
    """Yield a decision with its own key for each context; the candidates are shared."""
    shared = _choice(arms, eligible)
    for context in iterate_contexts(contexts):
        yield {"context": context_to_json(context), **shared, "idempotency_key": _key()}


def reward(
    name: str,
    decision_id: str,
    value: float,
    slot: int | None,
    examined: int | None,
    idempotency_key: str | None,
    metrics: Mapping[str, float] | None = None,
) -> Request:
    """Report a reward. If the caller passes no key, a random one makes retries safe."""
    if not _DECISION_ID.fullmatch(_checked_id(decision_id)):
        raise UnknownDecision(f"{decision_id!r} is not the id of a decision of this experiment")
    body = {
        "value": _checked_reward(value),
        **_present({"slot": slot, "examined": examined, "metrics": metrics}),
    }
    body["idempotency_key"] = _key(idempotency_key)
    return Request("POST", _path(name, f"decisions/{decision_id}/reward"), _encode(body))


def reward_many(name: str, rewards: Iterable[Reward]) -> tuple[list[Request], int]:
    """Report many rewards; return the requests and the number of rewards."""
    items = [_reward_item(item) for item in rewards]
    return _batches(_path(name, "rewards"), "rewards", items), len(items)


def _reward_item(item: Reward) -> dict[str, Any]:
    if not isinstance(item, Mapping):
        item = dict(zip(("id", "value", "idempotency_key"), item, strict=False))
    if not {"id", "value"} <= item.keys() <= set(_REWARD_FIELDS):
        raise InvalidInput(
            "a reward must have the keys id and value, and can have slot, examined, metrics and "
            f"idempotency_key, got {', '.join(map(str, item))}"
        )
    return {
        "id": _checked_id(item["id"]),
        "value": _checked_reward(item["value"]),
        **_present({name: item.get(name) for name in ("slot", "examined", "metrics")}),
        "idempotency_key": _key(item.get("idempotency_key")),
    }


def _present(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that are not None."""
    return {name: value for name, value in fields.items() if value is not None}


def explain(name: str, context: Any, arms: Any, eligible: Iterable[str] | None) -> Request:
    """Explain a decision without making it."""
    return Request("POST", _path(name, "explanations"), _encode(_decision_body(context, arms, eligible)))


def add_arm(name: str, arm: str, like: str | None, features: Mapping[str, Any] | None) -> Request:
    """Add an arm."""
    body: dict[str, Any] = {"name": arm, "like": like}
    if features is not None:
        body["features"] = context_to_json(features)
    return Request("POST", _path(name, "arms"), _encode(body), idempotent=False)


def set_arms(name: str, arms: Any) -> Request:
    """Replace all arms with features."""
    return Request("PUT", _path(name, "arms"), _encode({"arms": arms_to_json(arms)}))


def change_arms(name: str, arms: Any, remove: Iterable[str]) -> Request:
    """Add, change and remove arms with features."""
    body = {"arms": arms_to_json(arms or {}), "remove": list(remove)}
    return Request("PATCH", _path(name, "arms"), _encode(body), idempotent=False)


def list_arms(name: str, **query: Any) -> Request:
    """Get a page of the list of arms."""
    return Request("GET", _path(name, f"arms?{urlencode(query)}"))


def remove_arm(name: str, arm: str) -> Request:
    """Remove an arm."""
    return Request("DELETE", _path(name, f"arms/{_segment(arm)}"), idempotent=False)


def _segment(arm: str) -> str:
    """Return the name of an arm as a part of a path; the segments "." and ".." would change the path."""
    return quote(arm, safe="").replace(".", "%2E")


def stats(name: str) -> Request:
    """Get the statistics of an experiment."""
    return Request("GET", _path(name, "stats"))


def curves(name: str, start: datetime | None, end: datetime | None, points: int, arm: str | None) -> Request:
    """Get an experiment over time."""
    query: dict[str, Any] = {"points": points}
    for parameter, time in (("from", start), ("to", end)):
        if time is not None:
            if time.tzinfo is None:
                raise InvalidInput(f"the times of a range need a time zone, got {time.isoformat()}")
            query[parameter] = time.isoformat()
    if arm is not None:
        query["arm"] = arm
    return Request("GET", _path(name, f"curves?{urlencode(query)}"))


def segments(name: str) -> Request:
    """Get lift and arms by segment."""
    return Request("GET", _path(name, "segments"))


def export(name: str, path: str | PathLike[str], format: str, after: int) -> Request:  # noqa: A002
    """Download decisions and rewards to a file."""
    query = f"format={quote(format, safe='')}&after={int(after)}"
    return Request("GET", _path(name, f"export?{query}"), download=Download(Path(path), LogError))


def save_model(name: str, path: str | PathLike[str]) -> Request:
    """Download the bandit to a file."""
    return Request("GET", _path(name, "model"), download=Download(Path(path), ModelFileError))


def load_model(name: str, path: str | PathLike[str]) -> Request:
    """Upload the bandit in a file."""
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise ModelFileError(f"cannot read {path}: {error.strerror or error}") from error
    return Request("PUT", _path(name, "model"), content, "application/octet-stream")


PAGE = 1000
"""Number of arms per request."""


def catalog_page(name: str, offset: int) -> Request:
    """Get a page of the names of all arms."""
    return list_arms(name, sort="name", order="asc", offset=offset, limit=PAGE)


def start_evaluation(name: str, policies: object, **arguments: Any) -> Request:
    """Start an evaluation; None leaves an argument at its default."""
    if isinstance(policies, str):
        raise InvalidInput(f"policies must be a list or a dict, got {policies!r}: pass [{policies!r}]")
    named = dict(policies) if isinstance(policies, Mapping) else list(policies)  # type: ignore[call-overload]
    body = {field: value for field, value in arguments.items() if value is not None}
    content = _encode({"policies": named, **body})
    return Request("POST", _path(name, "evaluations"), content, idempotent=False)


def evaluation(name: str, evaluation_id: int) -> Request:
    """Get an evaluation."""
    return Request("GET", _path(name, f"evaluations/{int(evaluation_id)}"))


def evaluations(name: str, limit: int, before: int | None) -> Request:
    """List evaluations."""
    return Request("GET", _path(name, f"evaluations?limit={int(limit)}&before={int(before or 0)}"))


def cancel_evaluation(name: str, evaluation_id: int) -> Request:
    """Cancel or delete an evaluation."""
    return Request("DELETE", _path(name, f"evaluations/{int(evaluation_id)}"), idempotent=False)


def poll_pauses() -> Iterator[float]:
    """Yield increasing pauses between two requests for the state of an evaluation."""
    pause, longest = _POLL_SECONDS
    while True:
        yield pause
        pause = min(1.5 * pause, longest)


# ---- responses ----------------------------------------------------------------------------------


def parse(response: Response, kind: type[T]) -> T:
    """Decode the body of a response."""
    try:
        decoded: T = _DECODERS[kind].decode(response.content)
        return decoded
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise _unreadable(error) from error


def parse_batch(response: Response, kind: type[T]) -> list[T | GlcbError]:
    """Decode the results of a batch; a rejected item is returned as its exception."""
    try:
        return [_item(item, kind) for item in parse(response, BatchResponse).results]
    except msgspec.ValidationError as error:
        raise _unreadable(error) from error


def evaluation_result(info: EvaluationInfo) -> EvaluationResult | None:
    """Return the result of an evaluation, or None if it is not finished.

    Raises
    ------
    ServiceError
        If it has failed or was canceled.
    """
    if info.state in ("failed", "canceled"):
        raise ServiceError(f"the evaluation {info.id} {_ENDS[info.state]}: {info.reason}")
    return info.result


_ENDS = {"failed": "has failed", "canceled": "was canceled"}


def was_accepted(accepted: RewardAccepted, response: Response) -> bool:
    """Return whether this call reported the reward: a duplicate may stem from an earlier attempt."""
    return accepted.status == "accepted" or response.after_uncertain_attempt


def parse_accepted(response: Response) -> list[bool | GlcbError]:
    """Decode the results of a batch of rewards."""
    return [
        item if isinstance(item, GlcbError) else was_accepted(item, response)
        for item in parse_batch(response, RewardAccepted)
    ]


def _item(content: dict[str, Any], kind: type[T]) -> T | GlcbError:
    if "error" in content:
        error = msgspec.convert(content, ErrorResponse).error
        return exception_of(error.code, error.message, error.field)
    return msgspec.convert(content, kind)


def _unreadable(error: Exception) -> ServiceError:
    return ServiceError(f"cannot read the response; use a client of the same version as the service: {error}")


# ---- request fields -----------------------------------------------------------------------------


def _path(name: str, rest: str = "") -> str:
    if not EXPERIMENT_NAME.fullmatch(name):
        raise InvalidSettings(
            "an experiment name must be 1 to 64 characters from a–z, 0–9, _ and -, starting with a letter or "
            f"digit, got {name!r}"
        )
    return f"v1/experiments/{name}/{rest}" if rest else f"v1/experiments/{name}"


def _decision_body(context: Any, arms: Any, eligible: Iterable[str] | None) -> dict[str, Any]:
    return {"context": context_to_json(context), **_choice(arms, eligible)}


def _choice(arms: Any, eligible: Iterable[str] | None) -> dict[str, Any]:
    """Return the request fields for candidates and eligible arms."""
    body: dict[str, Any] = {}
    if arms is not None:
        body["arms"] = arms_to_json(arms)
    if eligible is not None:
        body["eligible"] = list(eligible)
    return body


def _key(idempotency_key: str | None = None) -> str:
    return secrets.token_hex(16) if idempotency_key is None else idempotency_key


def _checked_id(decision_id: object) -> str:
    if not isinstance(decision_id, str):
        raise UnknownDecision(
            f"the id of a decision must be a string, got {type(decision_id).__name__}; for a decision d, "
            "pass d.id"
        )
    return decision_id


def _checked_reward(value: Any) -> float:
    try:
        number = math.nan if isinstance(value, str | bytes | bytearray) else float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise InvalidReward(f"a reward must be a finite number, got {value!r}")
    return number


def _encode(body: Any) -> bytes:
    try:
        return msgspec.json.encode(body)
    except UnicodeEncodeError as error:
        raise InvalidContext(f"strings must be valid Unicode, got {error.object!r}") from error
    except TypeError as error:
        raise InvalidInput(f"values must be representable as JSON: {error}") from error


def _batches(path: str, field: str, items: list[dict[str, Any]]) -> list[Request]:
    """Split items into requests of limited size."""
    batches: list[list[bytes]] = []
    size = 0
    for item in map(_encode, items):
        if not batches or len(batches[-1]) == _MAX_ITEMS or size + len(item) > _MAX_BYTES:
            batches.append([])
            size = 0
        batches[-1].append(item)
        size += len(item) + 1
    return [Request("POST", path, b'{"%s":[%s]}' % (field.encode(), b",".join(batch))) for batch in batches]
