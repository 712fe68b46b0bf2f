"""Refusals, as the HTTP API tells them: a code, what was expected, what came, what to do."""

from glcb._errors import (
    ClosedDecision,
    DuplicateReward,
    GlcbError,
    InvalidContext,
    InvalidInput,
    InvalidReward,
    InvalidSettings,
    MissingExtra,
    ModelFileError,
    NotSupported,
    StorageError,
    UnknownArm,
    UnknownDecision,
)

STATUS = {
    "invalid_json": 400,
    "unauthorized": 401,
    "forbidden": 403,
    "not_found": 404,
    "unknown_experiment": 404,
    "unknown_decision": 404,
    "method_not_allowed": 405,
    "request_timeout": 408,
    "experiment_exists": 409,
    "experiment_paused": 409,
    "experiment_archived": 409,
    "arm_exists": 409,
    "duplicate_reward": 409,
    "idempotency_key_reused": 409,
    "not_supported": 409,
    "closed_decision": 410,
    "too_large": 413,
    "unsupported_media_type": 415,
    "invalid_request": 422,
    "invalid_context": 422,
    "unknown_arm": 422,
    "invalid_reward": 422,
    "invalid_settings": 422,
    "invalid_model": 422,
    "too_many": 422,
    "internal_error": 500,
    "experiment_broken": 500,
    "overloaded": 503,
    "storage_unavailable": 503,
    "starting": 503,
    "stopping": 503,
}
"""The HTTP status of every code."""

_CODES: dict[type[GlcbError], str] = {
    InvalidContext: "invalid_context",
    InvalidReward: "invalid_reward",
    UnknownArm: "unknown_arm",
    UnknownDecision: "unknown_decision",
    ClosedDecision: "closed_decision",
    DuplicateReward: "duplicate_reward",
    InvalidSettings: "invalid_settings",
    InvalidInput: "invalid_request",
    NotSupported: "not_supported",
    ModelFileError: "invalid_model",
    MissingExtra: "invalid_settings",
    StorageError: "storage_unavailable",
}
"""What the errors of the library are called in the API."""


class Problem(GlcbError):
    """A request that is refused; it has changed nothing."""

    def __init__(self, code: str, message: str, status: int | None = None, allow: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.status = STATUS[code] if status is None else status
        self.allow = allow
        """The methods that are possible where this one is not."""


def as_problem(error: GlcbError) -> Problem:
    """Return an error of the library as the API tells it."""
    if isinstance(error, Problem):
        return error
    code = next((_CODES[kind] for kind in type(error).__mro__ if kind in _CODES), "invalid_request")
    return Problem(code, str(error))
