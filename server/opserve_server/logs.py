"""The log: one JSON object a line on standard error."""

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Any

from typing_extensions import override


class _JsonLines(logging.Formatter):
    """Time, level, logger and message; request id and traceback where there are any."""

    @override
    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if request_id := vars(record).get("request_id"):
            line["request_id"] = request_id
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line)


def log_to_stderr(level: str) -> None:
    """Sends every log record of the process to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_JsonLines())
    logging.basicConfig(level=level, handlers=[handler], force=True)
