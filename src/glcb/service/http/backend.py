"""What applies decisions and rewards: the engine, or the engine with tracing."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, Protocol

from glcb.service.config import ServiceSettings
from glcb.service.errors import ApiError
from glcb.service.process.metrics import Activity, HttpMetrics


class Backend(Protocol):
    """Applies decisions and rewards, and counts requests."""

    @property
    def settings(self) -> ServiceSettings:
        """The settings of the service."""

    @property
    def metrics(self) -> HttpMetrics:
        """The counters of this process."""

    @property
    def activity(self) -> defaultdict[str, Activity]:
        """The counters of each experiment."""

    async def apply(self, name: str, kind: str, request: Any) -> bytes:
        """Apply one request; return its answer or raise its error."""

    async def apply_many(self, name: str, kind: str, requests: Sequence[Any]) -> list[bytes | ApiError]:
        """Apply requests in order; return an answer or an error for each."""

    def count_error(self, name: str | None, error: ApiError) -> None:
        """Count an error response."""
