"""Error codes of the HTTP API: one table for the service, the client and the reference page."""

from typing import NamedTuple

from glcb._errors import (
    ClosedDecision,
    DuplicateDecision,
    DuplicateReward,
    GlcbError,
    InvalidContext,
    InvalidInput,
    InvalidReward,
    InvalidSettings,
    MissingExtra,
    ModelFileError,
    NotRunning,
    NotSupported,
    ServiceError,
    ServiceUnavailable,
    StorageError,
    Unauthorized,
    UnknownArm,
    UnknownDecision,
    UnknownExperiment,
)


class ErrorCode(NamedTuple):
    """The HTTP status, the Python exceptions and the meaning of an error code."""

    status: int
    raises: type[GlcbError]
    """The exception that the client raises."""
    meaning: str
    reports: tuple[type[GlcbError], ...] = ()
    """The library exceptions that the service reports with this code."""


ERROR_CODES: dict[str, ErrorCode] = {
    "invalid_json": ErrorCode(400, InvalidInput, "The body is not valid JSON."),
    "unauthorized": ErrorCode(401, Unauthorized, "The API key is missing or unknown."),
    "forbidden": ErrorCode(403, Unauthorized, "The API key lacks the required role."),
    "not_found": ErrorCode(404, ServiceError, "The route does not exist."),
    "unknown_experiment": ErrorCode(
        404, UnknownExperiment, "The experiment does not exist, or the API key may not access it."
    ),
    "unknown_decision": ErrorCode(
        404, UnknownDecision, "The experiment has no decision with this id.", (UnknownDecision,)
    ),
    "unknown_evaluation": ErrorCode(404, ServiceError, "The experiment has no evaluation with this id."),
    "unknown_worker": ErrorCode(404, ServiceError, "The service has no such worker."),
    "method_not_allowed": ErrorCode(405, ServiceError, "The route does not support this method."),
    "request_timeout": ErrorCode(
        408, ServiceUnavailable, "The client did not send the complete request in time."
    ),
    "experiment_exists": ErrorCode(
        409, InvalidSettings, "An experiment with this name already exists with different settings."
    ),
    "experiment_paused": ErrorCode(409, NotRunning, "The experiment is paused."),
    "experiment_archived": ErrorCode(409, NotRunning, "The experiment is archived."),
    "arm_exists": ErrorCode(409, InvalidSettings, "The experiment already has an arm with this name."),
    "duplicate_decision": ErrorCode(
        409, DuplicateDecision, "The experiment already has a decision with this id.", (DuplicateDecision,)
    ),
    "duplicate_reward": ErrorCode(
        409, DuplicateReward, "The decision has already been rewarded.", (DuplicateReward,)
    ),
    "idempotency_key_reused": ErrorCode(
        409, InvalidInput, "The idempotency key was already used for a different request."
    ),
    "not_supported": ErrorCode(
        409, NotSupported, "The policy, or the service as it runs, does not support this.", (NotSupported,)
    ),
    "closed_decision": ErrorCode(
        410, ClosedDecision, "The decision no longer accepts a reward.", (ClosedDecision,)
    ),
    "too_large": ErrorCode(413, InvalidInput, "The request is too large."),
    "unsupported_media_type": ErrorCode(415, ServiceError, "The Content-Type header is missing or wrong."),
    "invalid_request": ErrorCode(
        422, InvalidInput, "The request does not match its schema.", (InvalidInput,)
    ),
    "invalid_context": ErrorCode(422, InvalidContext, "The context cannot be used.", (InvalidContext,)),
    "unknown_arm": ErrorCode(422, UnknownArm, "The experiment has no such arm.", (UnknownArm,)),
    "invalid_reward": ErrorCode(
        422, InvalidReward, "The reward is outside the declared range.", (InvalidReward,)
    ),
    "invalid_settings": ErrorCode(
        422, InvalidSettings, "A setting is invalid or inconsistent.", (InvalidSettings, MissingExtra)
    ),
    "invalid_model": ErrorCode(
        422, ModelFileError, "The model file cannot be read or is not usable here.", (ModelFileError,)
    ),
    "too_many": ErrorCode(422, InvalidInput, "The request exceeds a limit of the service."),
    "rate_limited": ErrorCode(
        429,
        ServiceUnavailable,
        "The publishable API key makes too many requests, or an address tries to sign in too often; retry.",
    ),
    "internal_error": ErrorCode(500, ServiceError, "The service failed; see its log for details."),
    "experiment_broken": ErrorCode(500, ServiceError, "The experiment cannot be loaded."),
    "not_broken": ErrorCode(409, ServiceError, "The experiment is not damaged: there is nothing to recover."),
    "overloaded": ErrorCode(503, ServiceUnavailable, "The service is overloaded; retry."),
    "storage_unavailable": ErrorCode(
        503, ServiceUnavailable, "The database is unavailable; retry.", (StorageError,)
    ),
    "worker_unavailable": ErrorCode(
        503, ServiceUnavailable, "The worker that owns this experiment does not respond; retry."
    ),
    "experiment_opening": ErrorCode(
        503, ServiceUnavailable, "The experiment is being opened after a restart; retry."
    ),
    "starting": ErrorCode(503, ServiceUnavailable, "The service is starting; retry."),
    "stopping": ErrorCode(503, ServiceUnavailable, "The service is stopping; retry."),
}

_CODE_OF = {kind: code for code, entry in ERROR_CODES.items() for kind in entry.reports}


def code_of(error: GlcbError) -> str:
    """Return the code with which the service reports a library exception.

    >>> code_of(UnknownArm("there is no arm 'x'"))
    'unknown_arm'
    """
    return next((_CODE_OF[kind] for kind in type(error).__mro__ if kind in _CODE_OF), "invalid_request")


def exception_of(code: str, message: str, field: str | None = None) -> GlcbError:
    """Return the exception that the client raises for an error response.

    >>> exception_of("unknown_arm", "there is no arm 'x'")
    UnknownArm("there is no arm 'x'")
    """
    entry = ERROR_CODES.get(code)
    if entry is None or entry.raises is ServiceError:
        return ServiceError(f"{message} ({code})")
    if code == "unauthorized":  # the service's message is about HTTP headers
        return Unauthorized(f"{message}; in Python, pass Client(url, api_key=…)")
    if entry.raises is InvalidSettings:
        return InvalidSettings(message, field)
    return entry.raises(message)
