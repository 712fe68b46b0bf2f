"""API errors."""

from glcb._api.errors import ERROR_CODES, code_of
from glcb._errors import GlcbError


class ApiError(GlcbError):
    """An error response of the API. The request that caused it has changed nothing.

    Parameters
    ----------
    code
        One of the codes in ``ERROR_CODES``.
    message
        What was expected, what was received, and what to do.
    status
        The HTTP status, if it differs from the usual one of ``code``.
    allow
        For ``method_not_allowed``: the methods that are allowed.
    """

    def __init__(self, code: str, message: str, status: int | None = None, allow: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.status = ERROR_CODES[code].status if status is None else status
        self.allow = allow


def as_api_error(error: GlcbError) -> ApiError:
    """Return the API error of a library error."""
    return error if isinstance(error, ApiError) else ApiError(code_of(error), str(error))
