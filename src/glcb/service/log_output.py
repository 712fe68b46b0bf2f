"""Log records on standard error, as JSON lines or as text."""

import json
import logging
import sys
from typing import Any

from glcb.service.responses import timestamp

_STANDARD_FIELDS = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "color_message"}


class JsonFormatter(logging.Formatter):
    """Formats a record as a JSON object with time, level, message and the ``extra`` fields."""

    def format(self, record: logging.LogRecord) -> str:
        """Return a record as one line."""
        fields: dict[str, Any] = {
            "time": timestamp(record.created),
            "level": record.levelname.lower(),
            "message": record.getMessage(),
        }
        fields.update({name: value for name, value in vars(record).items() if name not in _STANDARD_FIELDS})
        if record.exc_info:
            fields["trace"] = self.formatException(record.exc_info)
        return json.dumps(fields, default=str)


class TextFormatter(logging.Formatter):
    """Formats a record as time, level, message and the ``extra`` fields."""

    def format(self, record: logging.LogRecord) -> str:
        """Return a record as one line, followed by its traceback if it has one."""
        extra = " ".join(
            f"{name}={value}" for name, value in vars(record).items() if name not in _STANDARD_FIELDS
        )
        line = (
            f"{timestamp(record.created)} {record.levelname.lower()} {record.getMessage()} {extra}".rstrip()
        )
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


def configure_logging(level: str, log_format: str) -> None:
    """Send the logs of the service and of Uvicorn to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if log_format == "json" else TextFormatter())
    for name in ("glcb.service", "uvicorn.error"):
        logger = logging.getLogger(name)
        logger.handlers = [handler]
        logger.propagate = False
        logger.setLevel(level.upper() if name == "glcb.service" else "WARNING")
