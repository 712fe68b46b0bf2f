"""Refusals of the service as the errors that the library would have raised."""

from glcb._errors import (
    ClosedDecision,
    DuplicateReward,
    GlcbError,
    InvalidContext,
    InvalidInput,
    InvalidReward,
    InvalidSettings,
    ModelFileError,
    NotRunning,
    NotSupported,
    ServiceError,
    ServiceUnavailable,
    Unauthorized,
    UnknownArm,
    UnknownDecision,
    UnknownExperiment,
)

ERRORS: dict[str, type[GlcbError]] = {
    "invalid_json": InvalidInput,
    "unauthorized": Unauthorized,
    "forbidden": Unauthorized,
    "unknown_experiment": UnknownExperiment,
    "unknown_decision": UnknownDecision,
    "request_timeout": ServiceUnavailable,
    "experiment_exists": InvalidSettings,
    "experiment_paused": NotRunning,
    "experiment_archived": NotRunning,
    "experiment_broken": ServiceError,
    "arm_exists": InvalidSettings,
    "duplicate_reward": DuplicateReward,
    "idempotency_key_reused": InvalidInput,
    "not_supported": NotSupported,
    "closed_decision": ClosedDecision,
    "too_large": InvalidInput,
    "invalid_request": InvalidInput,
    "invalid_context": InvalidContext,
    "unknown_arm": UnknownArm,
    "invalid_reward": InvalidReward,
    "invalid_settings": InvalidSettings,
    "invalid_model": ModelFileError,
    "too_many": InvalidInput,
    "overloaded": ServiceUnavailable,
    "storage_unavailable": ServiceUnavailable,
    "starting": ServiceUnavailable,
    "stopping": ServiceUnavailable,
}
"""By code. Others mean that service and client do not understand each other: :class:`ServiceError`."""


def error_of(code: str, message: str) -> GlcbError:
    """Return the error that a refusal stands for.

    >>> error_of("unknown_arm", "there is no arm 'x'")
    UnknownArm("there is no arm 'x'")
    """
    if code == "unauthorized":  # the service speaks of headers, which is of no use here
        return Unauthorized(f"{message}; in Python: Client(url, api_key=…)")
    known = ERRORS.get(code)
    return ServiceError(f"{message} ({code})") if known is None else known(message)
