"""Every error that glcb raises on purpose.

GlcbError
├── InvalidInput (also a ValueError)
│   ├── InvalidContext     a context of the wrong length, not finite, or outside [0, 1]
│   ├── InvalidReward      a reward that is not 0 or 1, or outside the declared range
│   ├── UnknownArm         an arm that this policy does not have
│   ├── UnknownDecision    an id that no decision of this bandit has
│   ├── ClosedDecision    an id of a decision that no longer waits for its reward
│   ├── DuplicateReward    an id of a decision that has its reward already
│   └── InvalidSettings    a constructor argument or option that makes no sense
├── NotSupported           something that this policy cannot do
├── ModelFileError         a saved model that is truncated, altered, foreign or too new
├── LogError               a log that cannot be read or written
├── DataError              a data set that is missing, damaged, or cannot be made into a task
├── ResultsError           a folder of results that is damaged, or in use by another process
├── StorageError           a database of the service that cannot be read or written
├── ServiceError           a service that fails, or that its client does not understand
│   ├── ServiceUnavailable no answer, or none for now
│   ├── Unauthorized       a key that is missing, unknown or not allowed to do this
│   ├── UnknownExperiment  an experiment that is not there, or not for this key
│   └── NotRunning         an experiment that is paused or archived
└── MissingExtra (also an ImportError)    an optional part that is not installed

All of them are raised before any state changes, but for two: a LogError in the middle of a log, which comes
with a report of what was learned until then, and ServiceUnavailable: what an answer would have told is lost
with it.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from glcb.bandit.logs.report import LogReport

INSTALL_BASELINES = "pip install 'glcb[baselines]', or '.[baselines]' in a clone"
INSTALL_CLIENT = "pip install 'glcb[client]', or '.[client]' in a clone"
INSTALL_LOGS = "pip install 'glcb[logs]', or '.[logs]' in a clone"
INSTALL_REPORT = "pip install 'glcb[report]', or '.[report]' in a clone"
INSTALL_SERVICE = "pip install 'glcb[service]', or '.[service]' in a clone"


class GlcbError(Exception):
    """Base of every error that glcb raises on purpose."""


class InvalidInput(GlcbError, ValueError):
    """What came in cannot be used; nothing was changed."""


class InvalidContext(InvalidInput):
    """A context of the wrong length, not finite, or outside [0, 1]."""


class InvalidReward(InvalidInput):
    """A reward that is not 0 or 1, or outside the declared range."""


class UnknownArm(InvalidInput):
    """An arm that this policy does not have."""


class UnknownDecision(InvalidInput):
    """An id that no decision of this bandit has."""


class ClosedDecision(InvalidInput):
    """An id of a decision that no longer waits for its reward."""


class DuplicateReward(InvalidInput):
    """An id of a decision that has its reward already."""


class InvalidSettings(InvalidInput):
    """A constructor argument or option that makes no sense."""


class NotSupported(GlcbError):
    """Something that this policy cannot do."""


class ModelFileError(GlcbError):
    """A saved model that is truncated, altered, foreign or too new."""


class LogError(GlcbError):
    """A log that cannot be read or written."""

    def __init__(self, message: str, report: "LogReport | None" = None) -> None:
        super().__init__(message)
        self.report = report
        """What ``Bandit.learn_from`` had learned when the log broke off; None if it had not begun."""


class DataError(GlcbError):
    """A data set that is missing, damaged, or cannot be made into a task."""


class ResultsError(GlcbError):
    """A folder of results that is damaged, or in use by another process."""


class StorageError(GlcbError):
    """A database of the service that cannot be read or written."""


class ServiceError(GlcbError):
    """A service that fails, or that its client does not understand."""


class ServiceUnavailable(ServiceError):
    """A service that does not answer, or not now."""


class Unauthorized(ServiceError):
    """A key that is missing, unknown, or not allowed to do this."""


class UnknownExperiment(ServiceError):
    """An experiment that is not there, or not for this key."""


class NotRunning(ServiceError):
    """An experiment that is paused or archived."""


class MissingExtra(GlcbError, ImportError):
    """An optional part of glcb that is not installed."""
