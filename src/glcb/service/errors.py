"""Errors of the service, each with a code of the API. ``http/errors.py`` has their HTTP status."""

from glcb._api.errors import code_of
from glcb._errors import GlcbError, InvalidSettings


class ApiError(GlcbError):
    """A request was rejected, and has changed nothing.

    Parameters
    ----------
    code
        One of the codes in ``ERROR_CODES``.
    message
        What was expected, what was received, and what to do.
    field
        The setting that the error is about, if it is one.
    """

    def __init__(self, code: str, message: str, field: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.field = field


class MissingArm(ApiError):
    """The arm that a request is about does not exist.

    Parameters
    ----------
    message
        What was expected, what was received, and what to do.
    """

    def __init__(self, message: str) -> None:
        super().__init__("unknown_arm", message)


def as_api_error(error: GlcbError) -> ApiError:
    """Return the API error of a library error."""
    if isinstance(error, ApiError):
        return error
    return ApiError(code_of(error), str(error), error.field if isinstance(error, InvalidSettings) else None)
