"""Request and response bodies of the sign-in routes of the dashboard."""

from datetime import datetime
from typing import Annotated

from msgspec import Meta, Struct


class SignIn(Struct, frozen=True, forbid_unknown_fields=True):
    """A request to sign in."""

    api_key: Annotated[str, Meta(min_length=1, max_length=500)]
    """An API key with the role ``read``, ``edit`` or ``admin``."""


class Session(Struct, frozen=True, kw_only=True):
    """The sender of the request, and their permissions."""

    name: str
    """The name of the API key, or of the person signed in by a proxy; empty if no API keys exist."""
    role: str
    """``read``, ``edit`` or ``admin``."""
    experiments: tuple[str, ...] | None
    """The accessible experiments; null for all."""
    expires_at: datetime | None
    """When the session ends; null without a session."""
