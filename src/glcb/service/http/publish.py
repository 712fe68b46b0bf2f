"""Publishable API keys: what everyone who reads a web page may ask, and what they can see."""

import hashlib
import secrets
from typing import Any, TypeVar

import msgspec
from msgspec.json import Decoder

from glcb._api.errors import ERROR_CODES
from glcb._api.requests import DecisionRequest, RankingRequest, RewardItem, encode
from glcb.service.access.api_keys import ApiKey
from glcb.service.core.guard import RecordedReward
from glcb.service.errors import ApiError
from glcb.service.http.errors import HttpError, status_of

R = TypeVar("R", DecisionRequest, RankingRequest)

_SERVER_CODES = ("invalid_settings", "invalid_model")
"""Errors that are about the experiment, not about the request of a visitor. So are those from 500 on."""


def restricted(key: ApiKey, request: R) -> R:
    """Return the request as it is applied: with an id that others cannot guess, if the key is publishable.

    The ids that the service chooses for other keys are consecutive: visitors could guess them, and report
    rewards for the decisions of others. A repeated request has the same id. Its idempotency key is replaced,
    so that a visitor can neither use nor discover those of other API keys.

    Raises
    ------
    ApiError
        The key is publishable and the request has an id, which could be that of someone else.
    """
    if key.role != "publish":
        return request
    if request.id is not None:
        raise ApiError("forbidden", "a publishable API key cannot choose the id of a decision: leave out id")
    if request.idempotency_key is None:
        return msgspec.structs.replace(request, id=secrets.token_hex(16))
    digest = hashlib.sha256(request.idempotency_key.encode()).hexdigest()
    return msgspec.structs.replace(request, id=digest[:32], idempotency_key=f"public {digest}")


def marked(key: ApiKey, reward: RewardItem) -> RewardItem:
    """Return a reward as it is applied: marked if the key is publishable, because guardrails ignore it."""
    if key.role != "publish":
        return reward
    fields = {name: getattr(reward, name) for name in RewardItem.__struct_fields__}
    return RecordedReward(**fields, public=True)


def visible(key: ApiKey, content: bytes, decoder: Decoder[Any]) -> bytes:
    """Return the part of a response that a key can see: that of ``decoder`` if the key is publishable."""
    return encode(decoder.decode(content)) if key.role == "publish" else content


def visible_error(key: ApiKey | None, error: ApiError) -> ApiError:
    """Return an error as a client can see it: publishable keys, and clients without a key, see no details.

    The details can have paths of the server, or outcomes of stored events.
    """
    is_about_server = status_of(error) >= 500 or error.code in _SERVER_CODES
    if not is_about_server or (key is not None and key.role != "publish"):
        return error
    return HttpError(error.code, ERROR_CODES[error.code].meaning, status_of(error))
