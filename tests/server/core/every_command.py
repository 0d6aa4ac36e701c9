"""Every command by its name, for tests of many; the product imports each from its own module."""

from opserve_server.core.commands import Command
from opserve_server.core.event_commands import (
    CreateEvent,
    DestroyEvent,
    EventElapsedTime,
    QueryEvent,
    RecordEvent,
    StreamWaitEvent,
    SynchronizeEvent,
)
from opserve_server.core.memory_commands import Allocate, Copy, Fill, Free, Read, Write
from opserve_server.core.operator_commands import (
    DestroyExecutor,
    Execute,
    GetWorkspaceSize,
    SetRepeatable,
    SetTensorBuffer,
)
from opserve_server.core.stream_commands import (
    AbortStream,
    CreateStream,
    DestroyStream,
    QueryStream,
    SetFailureMode,
    SynchronizeStream,
)
from opserve_server.core.streams import FailureMode

__all__ = [
    "AbortStream",
    "Allocate",
    "Command",
    "Copy",
    "CreateEvent",
    "CreateStream",
    "DestroyEvent",
    "DestroyExecutor",
    "DestroyStream",
    "EventElapsedTime",
    "Execute",
    "FailureMode",
    "Fill",
    "Free",
    "GetWorkspaceSize",
    "QueryEvent",
    "QueryStream",
    "Read",
    "RecordEvent",
    "SetFailureMode",
    "SetRepeatable",
    "SetTensorBuffer",
    "StreamWaitEvent",
    "SynchronizeEvent",
    "SynchronizeStream",
    "Write",
]
