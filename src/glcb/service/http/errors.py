"""The HTTP status of each error."""

from glcb._api.errors import ERROR_CODES
from glcb.service.errors import ApiError, MissingArm

_STATUS: dict[type[ApiError] | str, int] = {
    **{code: entry.status for code, entry in ERROR_CODES.items()},
    MissingArm: 404,  # the arm is a part of the path
}
"""By class if it has a status of its own, otherwise by code."""


class HttpError(ApiError):
    """An error with a status of its own, or with an ``Allow`` header.

    Parameters
    ----------
    code, message
        Those of an :class:`ApiError`.
    status
        The HTTP status, if it differs from the usual one of ``code``.
    allow
        For ``method_not_allowed``: the methods that are allowed.
    field
        See :class:`ApiError`.
    """

    def __init__(
        self,
        code: str,
        message: str,
        status: int | None = None,
        allow: str = "",
        field: str | None = None,
    ) -> None:
        super().__init__(code, message, field)
        self.status = _STATUS[code] if status is None else status
        self.allow = allow


def status_of(error: ApiError) -> int:
    """Return the HTTP status of an error.

    >>> status_of(ApiError("unknown_arm", "…")), status_of(MissingArm("…"))
    (422, 404)
    """
    if isinstance(error, HttpError):
        return error.status
    return _STATUS.get(type(error)) or _STATUS[error.code]


def allowed_methods_of(error: ApiError) -> str:
    """Return the methods that a route allows instead of the one that an error is about; empty for others."""
    return error.allow if isinstance(error, HttpError) else ""
