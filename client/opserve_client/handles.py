"""Handles, which the client chooses: integers that increase within a session, for each kind."""

from dataclasses import dataclass

from opserve.v1.command_service_pb2 import Command
from opserve_client.arguments import LARGEST_UINT32, unsigned


@dataclass(frozen=True, slots=True, kw_only=True)
class Handles:
    """The greatest handle of each kind that a session has used.

    Attributes:
        buffer: Greatest handle of a buffer or workspace.
        executor: Greatest handle of an executor.
        stream: Greatest handle of a stream; stream 0 is the default stream.
        event: Greatest handle of an event.
    """

    buffer: int = 0
    executor: int = 0
    stream: int = 0
    event: int = 0


def choose_handle(command: Command, last: Handles) -> Handles:
    """Sets the handle of a command that creates an object, unless it is set; returns the new last.

    A command that creates nothing stays as it is.
    """
    match command.WhichOneof("command"):
        case "allocate":
            made = command.allocate.buffer = command.allocate.buffer or next_handle(
                "buffer", last.buffer
            )
            return _used(last, buffer=made)
        case "get_workspace_size":
            planned = command.get_workspace_size
            made = planned.executor = planned.executor or next_handle("executor", last.executor)
            return _used(last, executor=made)
        case "create_stream":
            made = command.create_stream.stream = command.create_stream.stream or next_handle(
                "stream", last.stream
            )
            return _used(last, stream=made)
        case "create_event":
            made = command.create_event.event = command.create_event.event or next_handle(
                "event", last.event
            )
            return _used(last, event=made)
        case _:
            return last


def _used(
    last: Handles, *, buffer: int = 0, executor: int = 0, stream: int = 0, event: int = 0
) -> Handles:
    """Returns the last handles after one more."""
    return Handles(  # not dataclasses.replace, which reads the fields of the class each time
        buffer=max(buffer, last.buffer),
        executor=max(executor, last.executor),
        stream=max(stream, last.stream),
        event=max(event, last.event),
    )


def next_handle(kind: str, last: int, *, ahead: int = 1) -> int:
    """Returns the handle `ahead` above the last one.

    Raises:
        AclrtError: 107000, the session has used all handles of the kind.
    """
    return unsigned(last + ahead, parameter=kind, most=LARGEST_UINT32)
