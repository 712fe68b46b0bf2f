"""Publishable API keys: what everyone who reads a web page may ask, and what they can see."""

import hashlib
import secrets
from typing import Any, TypeVar

import msgspec
from msgspec.json import Decoder

from glcb._api.requests import DecisionRequest, RankingRequest, RewardItem, encode
from glcb.service.auth import ApiKey
from glcb.service.core.guard import RecordedReward
from glcb.service.errors import ApiError

R = TypeVar("R", DecisionRequest, RankingRequest)


def restricted(key: ApiKey, request: R) -> R:
    """Return the request as it is applied: with an id that others cannot guess, if the key is publishable.

    The ids that the service chooses for other keys are consecutive: visitors could guess them, and report
    rewards for the decisions of others. A repeated request has the same id.

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
    return msgspec.structs.replace(request, id=digest[:32])


def marked(key: ApiKey, reward: RewardItem) -> RewardItem:
    """Return a reward as it is applied: marked if the key is publishable, because guardrails ignore it."""
    if key.role != "publish":
        return reward
    fields = {name: getattr(reward, name) for name in RewardItem.__struct_fields__}
    return RecordedReward(**fields, public=True)


def visible(key: ApiKey, content: bytes, decoder: Decoder[Any]) -> bytes:
    """Return the part of a response that a key can see: that of ``decoder`` if the key is publishable."""
    return encode(decoder.decode(content)) if key.role == "publish" else content
