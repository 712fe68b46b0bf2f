"""The exceptions of glcb.

GlcbError
├── InvalidInput (ValueError)
│   ├── InvalidContext
│   ├── InvalidReward
│   ├── UnknownArm
│   ├── UnknownDecision
│   ├── ClosedDecision
│   ├── DuplicateDecision
│   ├── DuplicateReward
│   └── InvalidSettings
├── NotSupported
├── ModelFileError
├── LogError
├── DataError
├── ResultsError
├── StorageError
├── ServiceError
│   ├── ServiceUnavailable
│   ├── Unauthorized
│   ├── UnknownExperiment
│   └── NotRunning
└── MissingExtra (ImportError)

Exceptions are raised before any state changes, with two exceptions: a LogError in the middle of a log carries
a report of what was learned so far, and after ServiceUnavailable it is unknown whether the service handled
the request.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from glcb.bandit.logs.replay import LogReport


def install_command(extra: str) -> str:
    """Return the command that installs an extra, for error messages."""
    return f"pip install '.[{extra}]' in a clone of the repository"


INSTALL_CLIENT = install_command("client")
INSTALL_LOGS = install_command("logs")
INSTALL_REPORT = install_command("report")
INSTALL_SERVICE = install_command("service")


class GlcbError(Exception):
    """Base class of all exceptions that glcb raises."""


class InvalidInput(GlcbError, ValueError):
    """An argument is invalid. Nothing was changed."""


class InvalidContext(InvalidInput):
    """A context has the wrong length, or contains a value that is not finite or is outside [0, 1]."""


class InvalidReward(InvalidInput):
    """A reward is not 0 or 1, or is outside the declared range."""


class UnknownArm(InvalidInput):
    """There is no arm with this name."""


class UnknownDecision(InvalidInput):
    """No decision of this bandit has this id."""


class ClosedDecision(InvalidInput):
    """The decision is no longer pending: it timed out, was evicted, or its arm was removed."""


class DuplicateDecision(InvalidInput):
    """There is already a decision with this id."""


class DuplicateReward(InvalidInput):
    """The decision has already been rewarded."""


class InvalidSettings(InvalidInput):
    """A constructor argument or an option is invalid.

    Attributes
    ----------
    field
        The name of the argument, or None if the error concerns several arguments or is not located.
    """

    def __init__(self, message: str, field: str | None = None) -> None:
        super().__init__(message)
        self.field = field


class NotSupported(GlcbError):
    """The policy does not support this operation."""


class ModelFileError(GlcbError):
    """A model file is missing, truncated, altered, or was not written by a compatible version of glcb."""


class LogError(GlcbError):
    """A log cannot be read or written.

    Attributes
    ----------
    report
        What ``Bandit.learn_from`` had learned before the error, or None if it had not started.
    """

    def __init__(self, message: str, report: "LogReport | None" = None) -> None:
        super().__init__(message)
        self.report = report


class DataError(GlcbError):
    """A data set is missing, damaged, or cannot be converted to a task."""


class ResultsError(GlcbError):
    """A results folder is damaged, or in use by another process."""


class StorageError(GlcbError):
    """The database of the service cannot be read or written."""


class ServiceError(GlcbError):
    """The service failed, or its response could not be parsed."""


class ServiceUnavailable(ServiceError):
    """The service did not respond, or is temporarily unavailable."""


class Unauthorized(ServiceError):
    """The API key is missing or unknown, or lacks the required role."""


class UnknownExperiment(ServiceError):
    """The experiment does not exist, or the API key has no access to it."""


class NotRunning(ServiceError):
    """The experiment is paused or archived."""


class MissingExtra(GlcbError, ImportError):
    """An optional dependency of glcb is not installed."""
