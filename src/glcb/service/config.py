"""Settings of ``glcb serve``.

``ServiceSettings`` is the only place that declares a setting: its type, default, bounds, meaning, and when to
change it. :func:`load` reads the settings, and :func:`settings_table` describes them for the command line and
the reference page.
"""

import ipaddress
import os
import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, get_args, get_origin

import msgspec
from msgspec import Meta, Struct

from glcb._errors import InvalidSettings

PREFIX = "GLCB_SERVE_"
"""Prefix of the environment variables, as in ``GLCB_SERVE_PORT``."""


_ORIGIN = r"^[a-z][a-z0-9+.-]*://[a-z0-9._:\[\]-]+$"
"""Matches an origin as browsers send it: in lower case and without a path."""


_HTTP_URL = r"^https?://[^\s/]+(/\S*)?$"


def _about(meaning: str, when_to_change: str) -> Meta:
    """Return the meaning of a setting and the advice on when to change it."""
    return Meta(description=meaning, extra={"when_to_change": when_to_change})


def _count(meaning: str, when_to_change: str) -> Meta:
    return Meta(ge=1, description=meaning, extra={"when_to_change": when_to_change})


def _positive(meaning: str, when_to_change: str) -> Meta:
    return Meta(gt=0, description=meaning, extra={"when_to_change": when_to_change})


def _list(meaning: str, when_to_change: str, items: str) -> Meta:
    return Meta(description=meaning, extra={"when_to_change": when_to_change, "items": items})


def _port(meaning: str, when_to_change: str) -> Meta:
    return Meta(ge=0, le=65535, description=meaning, extra={"when_to_change": when_to_change})


class Limits(Struct, frozen=True, kw_only=True):
    """What is the same for every service. Only tests pass other values."""

    max_batch: int = 1000
    """Decisions, rankings or rewards per request."""
    max_context_bytes: int = 100_000
    """Largest context, and largest features of an arm, in bytes of JSON."""
    max_candidates: int = 1000
    """Candidates of one request."""
    max_slots: int = 100
    """Slots of one ranking, and of the setting ``slots``."""
    max_cells: int = 50_000_000
    """Size of a model as arms × slots², where slots is the width of an encoded context. A cell takes 8 to 20
    bytes."""
    max_pending: int = 1_000_000
    """Upper bound of an experiment's own ``max_pending``."""
    max_experiments: int = 1000
    """Experiments in the database."""
    max_model_bytes: int = 256_000_000
    """Largest model file that can be uploaded."""
    max_other_requests: int = 100
    """Requests other than decisions and rewards, such as exports, at the same time."""
    max_share: float = 0.5
    """Share of the requests at the same time and of ``max_buffered_bytes`` that one API key or one experiment
    can use."""
    max_queued_events: int = 20_000
    """Events queued for the disk."""
    max_commit_events: int = 1000
    """Events per transaction."""
    max_evaluations: int = 10
    """Evaluations that are queued or running."""
    keep_evaluations: int = 50
    """Evaluations kept per experiment; a new one replaces the oldest."""
    keep_snapshots: int = 3
    """Snapshots kept per experiment."""
    session_hours: float = 12
    """Hours after which a person who has signed in to the dashboard must sign in again."""
    write_seconds: float = 30
    """Time a client has to read what was sent, at most 64 KB, before the connection is aborted."""
    unload_seconds: float = 900
    """Time after which an unused experiment is unloaded."""
    max_catalog: int = 10_000
    """Arms per experiment if arms have features."""
    shutdown_seconds: float = 30
    """Time that shutdown waits for requests in flight."""


class ServiceSettings(Limits, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The settings of ``glcb serve``; :func:`settings_table` describes them."""

    host: Annotated[
        str,
        _about("Address to listen on.", "To serve other machines. Create API keys first."),
    ] = "127.0.0.1"
    port: Annotated[
        int,
        _port("Port to listen on; 0 selects a free port.", "If the port is taken."),
    ] = 8000
    require_keys: Annotated[
        bool,
        _about(
            "Whether requests need an API key even on the loopback address and while no key exists.",
            "Behind a reverse proxy: set it to true.",
        ),
    ] = False
    cors_origins: Annotated[
        tuple[Annotated[str, Meta(pattern=_ORIGIN)], ...],
        _list(
            "Origins of the web pages that may make decisions and report rewards, such as "
            "`https://www.example.com`.",
            "To use the JavaScript client on pages of other hosts.",
            "a list of origins without a path, such as https://www.example.com",
        ),
    ] = ()
    user_header: Annotated[
        str | None,
        _about(
            "Header in which a reverse proxy names the person whom it has signed in, for example with OpenID "
            "Connect. Needs `require_keys`, and counts only in requests from `trusted_proxies`.",
            "To sign in with the accounts of your company. The proxy must remove the header from requests "
            "that it forwards.",
        ),
    ] = None
    role_header: Annotated[
        str | None,
        _about(
            "Header in which this proxy names the role of the person: `read`, `edit` or `admin`. Without it, "
            "the role is `read`.",
            "To let people who sign in at the proxy change experiments.",
        ),
    ] = None
    trusted_proxies: Annotated[
        tuple[str, ...],
        _list(
            "Addresses from which `user_header` and `role_header` count.",
            "If the reverse proxy runs on another machine or in another container.",
            "a list of addresses or networks, such as 10.0.0.0/24",
        ),
    ] = ("127.0.0.1", "::1")
    personalizer_experiment: Annotated[
        str | None,
        _about(
            "Experiment for requests of clients of Azure Personalizer whose API key is not limited to one.",
            "To try such a client without API keys while there are several experiments.",
        ),
    ] = None
    data: Annotated[
        str,
        _about("SQLite file with all data.", "To keep the data elsewhere."),
    ] = "glcb.db"
    database: Annotated[
        str | None,
        _about("URL of a PostgreSQL database, used instead of the file.", "To use PostgreSQL."),
    ] = None
    workers: Annotated[
        int,
        Meta(
            ge=1,
            le=256,
            description="Processes among which the experiments are divided; with the executor ray, those on "
            "each node. More than one needs PostgreSQL.",
            extra={"when_to_change": "If one core is not enough for all experiments."},
        ),
    ] = 1
    executor: Annotated[
        Literal["local", "ray"],
        _about(
            "What starts the workers: local for this process, or ray for a Ray cluster.",
            "To let Ray place the workers on several machines.",
        ),
    ] = "local"
    address: Annotated[
        str | None,
        _about(
            "Address of the Ray cluster. By default, that of the environment variable RAY_ADDRESS.",
            "With `executor=ray`.",
        ),
    ] = None
    inner_address: Annotated[
        Annotated[str, Meta(pattern=r"^[^/\s]+$")] | None,
        _about(
            "Address of this machine, with a port or without, at which workers of other machines reach it. "
            "By default, all workers are on one machine.",
            "To run workers on several machines, with the same database.",
        ),
    ] = None
    advertise: Annotated[
        Annotated[str, Meta(pattern=r"^https?://[^\s/]+$")] | None,
        _about(
            "URL at which clients reach this worker directly, without a path. It has a port of its own, by "
            "default a free one; several workers have successive ports.",
            "To let clients send requests to the owner of an experiment: `Client(url, direct=True)`.",
        ),
    ] = None
    high_water_file: Annotated[
        str | None,
        _about(
            "File in which the service notes the last event of each experiment, to notice if the database "
            "loses its newest events. By default, a SQLite file has one beside it, with the suffix `.mark`.",
            "With PostgreSQL, to notice a fail-over that loses events even after a restart.",
        ),
    ] = None
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"],
        _about("Lowest level of log messages to write.", "To debug, or to log only problems."),
    ] = "info"
    log_format: Annotated[
        Literal["json", "text"],
        _about("Format of the log lines on standard error.", "To read the log in a terminal."),
    ] = "json"
    trace_endpoint: Annotated[
        Annotated[str, Meta(pattern=_HTTP_URL)] | None,
        _about(
            "URL to which spans of decisions and rewards are sent, as OpenTelemetry's OTLP over HTTP, such "
            "as `http://127.0.0.1:4318/v1/traces`. It needs the extra `opentelemetry`.",
            "To trace requests through the service.",
        ),
    ] = None

    max_body_bytes: Annotated[
        int,
        _count("Largest request body, in bytes.", "If batches of large contexts are rejected."),
    ] = 1_000_000
    max_features: Annotated[
        int,
        _count(
            "Features per context and per arm, values per schema, and spare slots.", "For wider contexts."
        ),
    ] = 1000
    max_arms: Annotated[
        int,
        _count("Arms per experiment.", "For experiments with more arms."),
    ] = 1000
    max_model_memory: Annotated[
        int,
        _count(
            "Memory to which a model can grow, in bytes. It depends on the arms, the slots and the settings "
            "of the policy.",
            "For larger models, if there is enough memory.",
        ),
    ] = 4_000_000_000
    max_concurrent_requests: Annotated[
        int,
        _count(
            "Decisions and rewards, or batches of them, processed at the same time; more get status 503.",
            "To refuse requests earlier or later.",
        ),
    ] = 1000
    max_buffered_bytes: Annotated[
        int,
        _count(
            "Bytes of request bodies and of responses in memory; requests beyond that get status 503.",
            "To use more or less memory. A model must fit into the share of one API key.",
        ),
    ] = 600_000_000
    publish_rate: Annotated[
        int,
        _count(
            "Requests per second that one API key with the role `publish` can make; more get status 429.",
            "If all visitors of a page together make more requests. A decision and its reward are two.",
        ),
    ] = 100
    max_connections: Annotated[
        int,
        _count(
            "Open connections; beyond that, the one that has waited longest for its client is closed.",
            "If many clients keep connections open.",
        ),
    ] = 4000
    max_loaded_experiments: Annotated[
        int,
        _count(
            "Experiments in memory; the least recently used one is unloaded.", "To use more or less memory."
        ),
    ] = 100

    request_seconds: Annotated[
        float,
        _positive("Time a client has to send a complete request.", "For slow clients."),
    ] = 10
    idle_seconds: Annotated[
        float,
        _positive("Time after which an idle connection is closed.", "To match a proxy's keep-alive time."),
    ] = 60
    lock_wait_seconds: Annotated[
        float,
        _positive(
            "Time that startup waits for another service on the same database to stop.",
            "If a supervisor restarts the service before the old process has exited.",
        ),
    ] = 10
    storage_seconds: Annotated[
        float,
        _positive(
            "Time after which a commit or a read that has not returned counts as failed; requests then get "
            "status 503. After half of it, `/readyz` fails.",
            "If the disk or the database is slow.",
        ),
    ] = 10
    clock_hold_seconds: Annotated[
        float,
        _positive(
            "Time for which the system clock must keep a jump ahead of more than a second before the service "
            "follows it.",
            "To follow corrections of the clock earlier.",
        ),
    ] = 300
    snapshot_seconds: Annotated[
        float,
        _positive(
            "Time to apply the events between two snapshots of an experiment. After a crash, those since the "
            "newest one are replayed, which takes about as long.",
            "To trade faster restarts for more writes.",
        ),
    ] = 2
    event_retention_days: Annotated[
        float,
        _positive(
            "Age in days at which events are deleted, once they are part of all kept snapshots.",
            "To save disk space or meet a retention policy.",
        ),
    ] = 365

    @property
    def has_workers(self) -> bool:
        """Whether the experiments are divided among several processes."""
        return self.workers > 1 or self.executor == "ray" or self.inner_address is not None


class ServiceSettingRow(NamedTuple):
    """A row of :func:`settings_table`."""

    name: str
    type: str
    default: str
    meaning: str
    when_to_change: str
    """When to change the setting."""


def settings_table() -> list[ServiceSettingRow]:
    """Return all settings with type, default, meaning and advice on when to change them.

    >>> settings_table()[1]
    ServiceSettingRow(name='port', type='integer, 0 to 65535', default='8000', meaning='Port to listen on; 0 \
selects a free port.', when_to_change='If the port is taken.')
    """
    rows = []
    for field in msgspec.structs.fields(ServiceSettings):
        if field.name in Limits.__struct_fields__:
            continue
        kind, meta = get_args(field.type)
        rows.append(
            ServiceSettingRow(
                field.name,
                _type_text(kind, meta),
                _default_text(field.default),
                meta.description or "",
                meta.extra["when_to_change"],
            )
        )
    return rows


def _default_text(default: object) -> str:
    """Return a default as it is written in a settings file."""
    if default in (None, ()):
        return ""
    if isinstance(default, tuple):
        return ", ".join(default)
    return str(default).lower() if isinstance(default, bool) else str(default)


def _type_text(kind: Any, meta: Meta) -> str:
    """Return a type and its bounds in words."""
    if get_origin(kind) is Literal:
        *most, last = get_args(kind)
        return f"{', '.join(most)} or {last}"
    if get_origin(kind) is tuple:
        return str((meta.extra or {})["items"])
    name = {int: "integer", float: "number", bool: "true or false"}.get(kind, "text")
    if meta.le is not None and meta.gt is not None:
        return f"{name} above {meta.gt}, at most {meta.le}"
    if meta.le is not None:
        return f"{name}, {meta.ge} to {meta.le}"
    if meta.ge is not None:
        return f"{name}, at least {meta.ge}"
    return f"{name} above {meta.gt}" if meta.gt is not None else name


def load(
    flags: Mapping[str, Any],
    file: Path | None,
    environment: Mapping[str, str] = os.environ,
    pairs: Sequence[str] = (),
) -> ServiceSettings:
    """Return the settings from all sources.

    Parameters
    ----------
    flags
        Command-line flags, None where a flag was not passed. They override all other sources.
    file
        A TOML file. It is overridden by all other sources.
    environment
        Environment variables, such as ``GLCB_SERVE_PORT``. They override the file.
    pairs
        The values of ``--set``, such as ``max_arms=50``. They override the environment.

    Raises
    ------
    InvalidSettings
        A setting is unknown or invalid, or the file cannot be read.
    """
    values: dict[str, Any] = {} if file is None else _read_toml(file)
    names = [row.name for row in settings_table()]
    for variable, value in environment.items():
        if variable.startswith(PREFIX):
            name = variable.removeprefix(PREFIX).lower()
            values[name if name in names else variable] = value
    values.update(parse_pairs(pairs))
    values.update({name: value for name, value in flags.items() if value is not None})
    unknown = sorted(values.keys() - set(names))
    if unknown:
        raise InvalidSettings(
            f"there is no setting {', '.join(unknown)}; the settings are {', '.join(names)}"
        )
    for name in ("cors_origins", "trusted_proxies"):
        items = values.get(name)
        if isinstance(items, str):  # only a file can have a list
            values[name] = [item for item in map(str.strip, items.split(",")) if item]
    try:
        settings = msgspec.convert(values, ServiceSettings, strict=False)
    except msgspec.ValidationError as error:
        raise InvalidSettings(_explain(error, values)) from None
    _check_proxy(settings)
    return settings


def _check_proxy(settings: ServiceSettings) -> None:
    """Refuse settings that would let anybody name the person who sends a request."""
    if settings.user_header is not None and not settings.require_keys:
        raise InvalidSettings(
            "user_header needs require_keys = true: otherwise, requests without the header are anonymous and "
            "may do everything"
        )
    if settings.role_header is not None and settings.user_header is None:
        raise InvalidSettings("role_header needs user_header, which names the person")
    for address in settings.trusted_proxies:
        try:
            ipaddress.ip_network(address)
        except ValueError:
            raise InvalidSettings(
                f"trusted_proxies must be addresses or networks, such as 10.0.0.0/24, got {address!r}"
            ) from None


def _explain(error: msgspec.ValidationError, values: Mapping[str, Any]) -> str:
    """Return what a setting must be and what it was."""
    place = re.search(r"`\$\.(\w+)(?:\[\d+\])?`$", str(error))
    row = next((row for row in settings_table() if place is not None and row.name == place[1]), None)
    if row is None:
        return f"the settings are invalid: {error}"
    return f"{row.name} must be {row.type}, got {values[row.name]!r}"


def parse_pairs(pairs: Sequence[str]) -> dict[str, str]:
    """Return the names and values of ``--set NAME=VALUE`` flags.

    >>> parse_pairs(["max_arms=50", "idle_seconds=5"])
    {'max_arms': '50', 'idle_seconds': '5'}
    """
    values = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            raise InvalidSettings(f"--set expects NAME=VALUE, such as max_arms=50, got {pair!r}")
        values[name.strip()] = value.strip()
    return values


def _read_toml(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidSettings(f"cannot read the settings in {file}: {error}") from error
    except tomllib.TOMLDecodeError as error:
        raise InvalidSettings(f"{file} is not a valid TOML file: {error}") from error
