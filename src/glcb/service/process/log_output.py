"""Log records on standard error, as JSON lines or as text.

Clients cannot fill the disk: a long line is shortened, and a message that repeats too often is suppressed for
a while.
"""

import json
import logging
import sys
from collections import Counter
from typing import Any

from glcb.service.process.clock import timestamp

_STANDARD_FIELDS = frozenset(vars(logging.makeLogRecord({}))) | {
    *("message", "asctime", "color_message"),
    "_ray_timestamp_ns",  # which Ray adds to all records
}
_MAX_CHARACTERS = 8000
"""Longest text of one field, such as a traceback."""
_PERIOD_SECONDS = 10.0
_MAX_REPEATS = 100
"""Lines with the same message in one period."""


class RepeatFilter(logging.Filter):
    """Suppresses a message that has been logged too often in the current period.

    The first line of the message in a later period has the number of suppressed ones as ``suppressed``.
    """

    def __init__(self) -> None:
        super().__init__()
        self._period_end = 0.0
        self._counts: Counter[tuple[str, str]] = Counter()
        self._suppressed: Counter[tuple[str, str]] = Counter()

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether to write a record."""
        if not 0 <= self._period_end - record.created <= _PERIOD_SECONDS:
            self._period_end = record.created + _PERIOD_SECONDS
            self._counts.clear()
        message = record.name, str(record.msg)
        self._counts[message] += 1
        if self._counts[message] > _MAX_REPEATS:
            self._suppressed[message] += 1
            return False
        suppressed = self._suppressed.pop(message, 0)
        if suppressed:
            record.suppressed = suppressed
        return True


class JsonFormatter(logging.Formatter):
    """Formats a record as a JSON object with time, level, message and the ``extra`` fields."""

    def format(self, record: logging.LogRecord) -> str:
        """Return a record as one line."""
        fields: dict[str, Any] = {
            "time": timestamp(record.created),
            "level": record.levelname.lower(),
            "message": record.getMessage(),
        }
        fields.update(_extra_fields(record))
        if record.exc_info:
            fields["trace"] = self.formatException(record.exc_info)
        return json.dumps({name: _shorten(value) for name, value in fields.items()}, default=str)


class TextFormatter(logging.Formatter):
    """Formats a record as time, level, message and the ``extra`` fields."""

    def format(self, record: logging.LogRecord) -> str:
        """Return a record as one line, followed by its traceback if it has one."""
        extra = " ".join(f"{name}={_one_line(value)}" for name, value in _extra_fields(record).items())
        message = _one_line(record.getMessage())
        line = f"{timestamp(record.created)} {record.levelname.lower()} {message} {extra}".rstrip()
        return f"{line}\n{_shorten(self.formatException(record.exc_info))}" if record.exc_info else line


def _extra_fields(record: logging.LogRecord) -> dict[str, Any]:
    """Return the ``extra`` fields of a record, without those that other libraries add for themselves."""
    return {
        name: value
        for name, value in vars(record).items()
        if name not in _STANDARD_FIELDS and not name.startswith("_")
    }


def _one_line(value: Any) -> str:
    """Return a value as text without line breaks, so that no value can look like a line of the log."""
    return "\\n".join(str(_shorten(value)).splitlines())


def _shorten(value: Any) -> Any:
    """Return a text without its middle if it is too long; any other value unchanged."""
    if not isinstance(value, str) or len(value) <= _MAX_CHARACTERS:
        return value
    half = _MAX_CHARACTERS // 2
    return f"{value[:half]} … {value[-half:]}"


def configure_logging(level: str, log_format: str) -> None:
    """Send the logs of the service and of Uvicorn to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if log_format == "json" else TextFormatter())
    handler.addFilter(RepeatFilter())
    for name in ("glcb.service", "uvicorn.error"):
        logger = logging.getLogger(name)
        logger.handlers = [handler]
        logger.propagate = False
        logger.setLevel(level.upper() if name == "glcb.service" else "WARNING")
