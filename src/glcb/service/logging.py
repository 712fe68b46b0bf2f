"""Logs on standard error: a line of JSON each, or of text for a person who watches."""

import json
import logging
import sys
from typing import Any

from glcb.service.views import timestamp

_USUAL = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "color_message"}


class JsonLines(logging.Formatter):
    """A JSON object: time, level, message, and whatever else was said."""

    def format(self, record: logging.LogRecord) -> str:
        """Return a record as a line."""
        said: dict[str, Any] = {
            "time": timestamp(record.created),
            "level": record.levelname.lower(),
            "message": record.getMessage(),
        }
        said.update({name: value for name, value in vars(record).items() if name not in _USUAL})
        if record.exc_info:
            said["trace"] = self.formatException(record.exc_info)
        return json.dumps(said, default=str)


class TextLines(logging.Formatter):
    """Time, message, and whatever else was said."""

    def format(self, record: logging.LogRecord) -> str:
        """Return a record as a line."""
        extra = " ".join(f"{name}={value}" for name, value in vars(record).items() if name not in _USUAL)
        line = (
            f"{timestamp(record.created)} {record.levelname.lower()} {record.getMessage()} {extra}".rstrip()
        )
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


def begin(level: str, form: str) -> None:
    """Write the logs of the service and of the server beneath it to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if form == "json" else TextLines())
    for name in ("glcb.service", "uvicorn.error"):
        logger = logging.getLogger(name)
        logger.handlers = [handler]
        logger.propagate = False
        logger.setLevel(level.upper() if name == "glcb.service" else "WARNING")
