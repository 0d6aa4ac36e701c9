"""The log: a line for each record on standard error, with the fields of its call.

A line is text for people on a terminal, and a JSON object elsewhere.
"""

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Any

from typing_extensions import override

from opserve_server.core.observations import CALL, Call, CallEnded, Observation
from opserve_server.guard import UNAUTHENTICATED
from opserve_server.settings import LogFormat

_FAULTS = frozenset({"INTERNAL", "500", "internal"})
"""Outcomes that are faults of the service, on any API; a draining service has none."""
_MS_PER_S = 1e3

log = logging.getLogger(__name__)


class JsonLines(logging.Formatter):
    """Formats time, level, logger, message, the fields of the call, and a traceback.

    JSON escapes every control character, so that no text of a client can begin a line.
    """

    @override
    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        call = CALL.get()
        if call is not None:
            line |= _formatted(call)
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line)


class TextLines(logging.Formatter):
    """Formats local time, level, message, the fields of the call, and then a traceback.

    Control characters are escaped, so that no text of a client begins a line or moves the cursor.
    """

    @override
    def format(self, record: logging.LogRecord) -> str:
        time = datetime.fromtimestamp(record.created).astimezone().strftime("%H:%M:%S")
        call = CALL.get()
        fields = "" if call is None else " ".join(f"{k}={v}" for k, v in _formatted(call).items())
        line = _printable(f"{time} {record.levelname:7} {record.getMessage()}  {fields}".rstrip())
        if not record.exc_info:
            return line
        traceback = self.formatException(record.exc_info).splitlines()
        return "\n".join([line, *(f"    {_printable(one)}" for one in traceback)])


def log_to_stderr(level: str, form: LogFormat) -> None:
    """Sends the log records of the process to standard error.

    Args:
        level: Least level.
        form: Format of the lines; "auto" is "text" on a terminal and "json" elsewhere.
    """
    is_text = form == "text" or (form == "auto" and sys.stderr.isatty())
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(TextLines() if is_text else JsonLines())
    handler.addFilter(_is_no_lost_client)
    logging.basicConfig(level=level, handlers=[handler], force=True)
    # Its plugins are the same at every start.
    logging.getLogger("alembic.runtime.plugins").setLevel(logging.WARNING)


def _is_no_lost_client(record: logging.LogRecord) -> bool:
    """Drops gRPC's line on a lost client, with which any client could fill the pipe."""
    of_grpc = record.name.startswith("grpc.")
    return not (of_grpc and str(record.msg).startswith("ExecuteBatchError"))


def log_observation(observation: Observation) -> None:
    """Logs a call: WARNING for a fault of the service, INFO for a rejection, else DEBUG.

    A rejected caller without a key is logged at DEBUG too: it could write as fast as it sends, and
    a full pipe blocks the event loop. The metrics and the audit count such calls.
    """
    if not isinstance(observation, CallEnded):
        return
    call = observation.call
    has_key = call.principal is not None and call.principal is not UNAUTHENTICATED
    level = logging.INFO if call.failure and has_key else logging.DEBUG
    if call.outcome in _FAULTS:
        level = logging.WARNING
    if log.isEnabledFor(level):
        ended = call.outcome or "hung up"
        ms = observation.seconds * _MS_PER_S
        log.log(level, "%s: %s in %.2f ms%s", call.method, ended, ms, _because(call))


def _printable(text: str) -> str:
    return "".join(
        one if one.isprintable() else one.encode("unicode_escape").decode() for one in text
    )


def _because(call: Call) -> str:
    return f": {call.failure}" if call.failure else ""


def _formatted(call: Call) -> dict[str, str]:
    members = {
        "request_id": call.request_id,
        "api": call.api,
        "session": call.session,
        "device": call.device,
        "operator": call.operator,
    }
    return {name: value for name, value in members.items() if value}
