"""Each command has one handler, and adding one takes few files."""

import ast
import inspect
from pathlib import Path
from typing import get_args, get_type_hints

import pytest

from opserve_server.core.commands import HANDLERS, Command

REPOSITORY = Path(__file__).parents[3]
GENERATED = ("_pb2", "/_sync/")


def test_every_command_has_a_handler() -> None:
    assert HANDLERS.keys() == set(get_args(Command))


@pytest.mark.parametrize("command", HANDLERS, ids=lambda command: command.__name__)
def test_the_handler_of_a_command_takes_that_command(command: type[Command]) -> None:
    assert get_type_hints(HANDLERS[command].run)["command"] is command


@pytest.mark.parametrize("command", HANDLERS, ids=lambda command: command.__name__)
def test_only_a_handler_that_awaits_waits(command: type[Command]) -> None:
    handler = HANDLERS[command]
    tree = ast.parse(inspect.getsource(handler.run))
    assert handler.waits is any(isinstance(node, ast.Await) for node in ast.walk(tree))


def test_commands_that_make_handles_or_queue_calls_are_new_work() -> None:
    new_work = {command.__name__ for command, handler in HANDLERS.items() if handler.new_work}
    assert new_work == {"Allocate", "CreateEvent", "CreateStream", "Execute", "GetWorkspaceSize"}


def test_a_command_is_written_by_hand_in_six_files() -> None:
    spellings = ("AbortStream", "abort_stream", "ABORT_STREAM")
    found = {
        str(path.relative_to(REPOSITORY))
        for root in ("client", "kernels", "protos", "server")
        for path in (REPOSITORY / root).rglob("*")
        if path.suffix in {".py", ".proto"}
        and not any(part in str(path) for part in GENERATED)
        and any(spelling in path.read_text() for spelling in spellings)
    }
    assert found == {
        "protos/opserve/v1/stream_service.proto",
        "protos/opserve/v1/command_service.proto",
        "server/opserve_server/core/stream_commands.py",
        "server/opserve_server/rest_api/routers/streams.py",
        "client/opserve_client/wire/methods.py",
        "client/opserve_client/_async/streams.py",
    }
