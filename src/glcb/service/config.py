"""Settings of the service. A flag counts more than the environment, and that more than the TOML file."""

import os
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from glcb._errors import InvalidSettings

PREFIX = "GLCB_SERVE_"

Count = Annotated[int, Meta(ge=1)]
Seconds = Annotated[float, Meta(gt=0)]


class ServiceSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything that can be set, by these names."""

    host: str = "127.0.0.1"
    port: Annotated[int, Meta(ge=0, le=65535)] = 8000
    data: str = "glcb.db"
    """The file of the SQLite database …"""
    database: str | None = None
    """… unless there is the URL of another one."""
    log_level: str = "info"
    log_format: str = "json"

    max_body: Count = 1_000_000
    """Bytes of a request."""
    max_model: Count = 256_000_000
    """Bytes of a model that is uploaded."""
    max_items: Count = 1000
    """Decisions or rewards in one request."""
    max_features: Count = 1000
    max_arms: Count = 1000
    max_cells: Count = 50_000_000
    """Arms × slots², where slots are the numbers that a context becomes: some 8 to 20 bytes each."""
    max_experiments: Count = 1000
    max_pending: Count = 1_000_000
    """Decisions of one experiment that can wait for a reward."""
    max_requests: Count = 1000
    """Requests that are dealt with at the same time; more are refused."""
    max_connections: Count = 4000
    """Open connections; when more are opened, the one that was idle longest is closed."""
    max_queue: Count = 20_000
    """Events that wait for the disk; while there are more, requests are refused."""
    max_loaded: Count = 100
    """Experiments in memory."""

    request_seconds: Seconds = 10
    """A request that is not complete by then is closed."""
    idle_seconds: Seconds = 60
    """A connection without a request is closed."""
    unload_seconds: Seconds = 900
    """An experiment that nobody asks for leaves the memory."""
    takeover_seconds: Seconds = 10
    """A start waits that long for another service on the same database, which may just have been killed."""
    stop_seconds: Seconds = 30
    """When it is told to stop, the service waits that long for requests that are under way."""

    commit_events: Count = 1000
    """Events that are committed at once, at most."""
    snapshot_events: Count = 20_000
    """A snapshot is taken after so many events: a start replays about as many for each experiment."""
    keep_snapshots: Count = 3
    keep_days: Seconds = 365
    """Events older than this are removed, once a kept snapshot makes them unnecessary."""


def load(
    flags: Mapping[str, Any],
    file: Path | None,
    environment: Mapping[str, str] = os.environ,
    pairs: Sequence[str] = (),
) -> ServiceSettings:
    """Return the settings from all places.

    Those of ``flags`` that are None were not given; others count more than ``pairs``, what ``--set`` said.
    """
    given: dict[str, Any] = {} if file is None else _read(file)
    known = ServiceSettings.__struct_fields__
    for variable, value in environment.items():
        if variable.startswith(PREFIX):
            name = variable.removeprefix(PREFIX).lower()
            given[name if name in known else variable] = value
    given.update(named(pairs))
    given.update({name: value for name, value in flags.items() if value is not None})
    unknown = sorted(given.keys() - set(known))
    if unknown:
        raise InvalidSettings(
            f"the service has no setting {', '.join(unknown)}; the settings are {', '.join(known)}"
        )
    try:
        settings = msgspec.convert(given, ServiceSettings, strict=False)
    except msgspec.ValidationError as error:
        raise InvalidSettings(f"the settings of the service cannot be: {error}") from None
    if settings.log_format not in ("json", "text"):
        raise InvalidSettings(f"log_format must be json or text, got {settings.log_format!r}")
    if settings.log_level not in ("debug", "info", "warning", "error"):
        raise InvalidSettings(f"log_level must be debug, info, warning or error, got {settings.log_level!r}")
    return settings


def named(pairs: Sequence[str]) -> dict[str, str]:
    """Return what ``--set name=value`` said, several times perhaps.

    >>> named(["max_arms=50", "idle_seconds=5"])
    {'max_arms': '50', 'idle_seconds': '5'}
    """
    found = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            raise InvalidSettings(f"--set needs a name and a value such as max_arms=50, got {pair!r}")
        found[name.strip()] = value.strip()
    return found


def _read(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidSettings(f"cannot read the settings in {file}: {error}") from error
    except tomllib.TOMLDecodeError as error:
        raise InvalidSettings(f"{file} is not a proper TOML file: {error}") from error
