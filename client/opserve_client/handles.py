"""Handles that the client chooses: small integers of each kind that grow within a session."""

from dataclasses import dataclass, replace

from opserve.v1.command_service_pb2 import Command
from opserve_client.arguments import LARGEST_UINT32, unsigned


@dataclass(frozen=True, slots=True, kw_only=True)
class Handles:
    """The greatest handle of each kind that a session has used.

    Attributes:
        buffer: Of buffers, workspaces among them.
        executor: Of executors.
        stream: Of streams; stream 0 is the default stream.
        event: Of events.
    """

    buffer: int = 0
    executor: int = 0
    stream: int = 0
    event: int = 0


def choose_handle(command: Command, last: Handles) -> Handles:
    """Gives what the command makes the next handle of its kind, unless it has chosen one itself."""
    match command.WhichOneof("command"):
        case "allocate":
            made = command.allocate.buffer = command.allocate.buffer or next_handle(
                "buffer", last.buffer
            )
            return replace(last, buffer=max(made, last.buffer))
        case "get_workspace_size":
            planned = command.get_workspace_size
            made = planned.executor = planned.executor or next_handle("executor", last.executor)
            return replace(last, executor=max(made, last.executor))
        case "create_stream":
            made = command.create_stream.stream = command.create_stream.stream or next_handle(
                "stream", last.stream
            )
            return replace(last, stream=max(made, last.stream))
        case "create_event":
            made = command.create_event.event = command.create_event.event or next_handle(
                "event", last.event
            )
            return replace(last, event=max(made, last.event))
        case _:
            return last


def next_handle(kind: str, last: int, *, ahead: int = 1) -> int:
    """The handle that far above the last one.

    Raises:
        AclrtError: 107000, the session has used them up.
    """
    return unsigned(last + ahead, parameter=kind, most=LARGEST_UINT32)
