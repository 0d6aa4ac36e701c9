"""Values of a message are counted before it is parsed."""

from typing import Any

import pytest
from google.protobuf.descriptor import Descriptor
from google.protobuf.message import Message

from opserve.v1.command_service_pb2 import Command, SubmitRequest
from opserve.v1.conformance_service_pb2 import (
    CaseResult,
    ReportRunRequest,
    RunSuiteRequest,
    VerifyRequest,
)
from opserve.v1.memory_service_pb2 import CopyRequest, WriteRequest
from opserve.v1.operator_service_pb2 import GetWorkspaceSizeRequest
from opserve_server.core.errors import InvalidArgument
from opserve_server.grpc_api.elements import VALUES_AT_ONCE, VALUES_LIMIT, check_elements
from opserve_server.grpc_api.methods import message_in
from opserve_server.settings import COMMANDS_MAXIMUM
from server.loop_iterations import LoopIterations

MESSAGE_BYTES = 4 * 2**20
CHUNK = bytes(256 * 2**10)
SMALL_WRITE = Command(write=WriteRequest(buffer=1, data=bytes(150)))


def filled(piece: bytes) -> bytes:
    """A message of pieces, as long as one may be."""
    return piece * (MESSAGE_BYTES // len(piece))


def inside(tag: bytes, content: bytes) -> bytes:
    """A field that holds bytes."""
    size, encoded = len(content), b""
    while size > 0x7F:
        encoded += bytes([size & 0x7F | 0x80])
        size >>= 7
    return tag + encoded + bytes([size]) + content


ONE_CALL = inside(b"\x3a", filled(b"\x22\x00"))
ONE_COMMAND = inside(b"\x12", ONE_CALL)


@pytest.mark.parametrize(
    ("form", "data"),
    [
        pytest.param(SubmitRequest.DESCRIPTOR, filled(b"\x12\x00"), id="messages"),
        pytest.param(SubmitRequest.DESCRIPTOR, filled(b"\x12\x02\x1a\x00"), id="nested"),
        pytest.param(SubmitRequest.DESCRIPTOR, b"\x12\x02\x1a\x00" * 70_000, id="half in commands"),
        pytest.param(SubmitRequest.DESCRIPTOR, ONE_COMMAND, id="in one command"),
        pytest.param(SubmitRequest.DESCRIPTOR, filled(b"\x12\x00") + b"\x07", id="malformed"),
        pytest.param(
            SubmitRequest.DESCRIPTOR, inside(b"\x12", ONE_CALL + b"\x07"), id="malformed inside"
        ),
        pytest.param(
            SubmitRequest.DESCRIPTOR, b"\x12\xff\xff\xff\x7f" + filled(b"\x0a\x00"), id="cut"
        ),
        pytest.param(SubmitRequest.DESCRIPTOR, filled(b"\xfa\x07\x00"), id="unknown fields"),
        pytest.param(SubmitRequest.DESCRIPTOR, filled(b"\xfb\x07\xfc\x07"), id="unknown groups"),
        pytest.param(SubmitRequest.DESCRIPTOR, filled(b"\x0a\x00"), id="texts"),
        pytest.param(VerifyRequest.DESCRIPTOR, filled(b"\x32\x00"), id="a map"),
        pytest.param(WriteRequest.DESCRIPTOR, filled(b"\x10\x00"), id="one field again and again"),
    ],
)
async def test_a_message_of_too_many_values_is_refused_before_it_is_parsed(
    form: Descriptor, data: bytes
) -> None:
    def parsed(_: bytes) -> None:
        pytest.fail("it was parsed")

    with pytest.raises(
        InvalidArgument, match=f"message does not accept more; it accepts at most {2**17}"
    ):
        await message_in(form, parsed, data)


@pytest.mark.parametrize("packed", [True, False])
async def test_a_long_list_of_numbers_is_refused_before_it_is_parsed(*, packed: bool) -> None:
    request = GetWorkspaceSizeRequest()
    shape = request.im2col_backward.grad_output.shape
    if packed:
        shape.extend([1] * (2 * VALUES_LIMIT + 2000))
        data = request.SerializeToString()
    else:
        number = request.DESCRIPTOR.fields_by_name["im2col_backward"].number
        tensor = request.im2col_backward.DESCRIPTOR.fields_by_name["grad_output"].number
        values = b"\x08\x01" * (VALUES_LIMIT + 1000)
        data = inside(tag_of(number), inside(tag_of(tensor), values))
    assert GetWorkspaceSizeRequest.FromString(data).im2col_backward.grad_output.shape
    with pytest.raises(InvalidArgument, match="at most 131072 values"):
        await check_elements(data, request.DESCRIPTOR)


def tag_of(number: int) -> bytes:
    assert number < 16
    return bytes([number << 3 | 2])


def largest(command: Command) -> SubmitRequest:
    return SubmitRequest(session="s", commands=[command] * COMMANDS_MAXIMUM)


@pytest.mark.parametrize(
    "message",
    [
        pytest.param(
            largest(
                Command(
                    copy=CopyRequest(
                        destination=10**5,
                        destination_offset=2**40,
                        source=10**5,
                        source_offset=2**40,
                        size_bytes=2**40,
                    )
                )
            ),
            id="commands",
        ),
        pytest.param(largest(SMALL_WRITE), id="small writes"),
        pytest.param(
            SubmitRequest(
                commands=[Command(write=WriteRequest(buffer=1, data=CHUNK[: 2**16]))] * 63
            ),
            id="large writes",
        ),
        pytest.param(VerifyRequest(suite="fuzz", data=CHUNK * 15), id="outputs"),
        pytest.param(WriteRequest(session="s", data=CHUNK, crc32c=1), id="a chunk"),
        pytest.param(RunSuiteRequest(definitions=["x" * 10_000] * 400), id="definitions"),
        pytest.param(
            ReportRunRequest(
                results=[
                    CaseResult(case="c", status="FAILED", reason="r" * 900, verdict="v" * 3000)
                ]
                * 1000
            ),
            id="results",
        ),
    ],
)
async def test_the_largest_messages_of_use_are_no_more_than_the_limit(message: Message) -> None:
    data = message.SerializeToString()
    assert len(data) <= MESSAGE_BYTES

    def parsed(given: bytes) -> Any:
        return type(message).FromString(given)

    form: Any = message.DESCRIPTOR
    assert await message_in(form, parsed, data) == message


async def test_others_have_their_turn_while_values_are_counted() -> None:
    iterations = LoopIterations()
    data = largest(SMALL_WRITE).SerializeToString()
    await check_elements(data, SubmitRequest.DESCRIPTOR)
    fields = 4 * COMMANDS_MAXIMUM  # the command, the write in it, its buffer and its data
    assert iterations.count >= fields // VALUES_AT_ONCE


async def test_a_small_message_is_not_walked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("opserve_server.grpc_api.elements._counts", None)
    data = WriteRequest(data=CHUNK, crc32c=1).SerializeToString()
    form: Any = WriteRequest.DESCRIPTOR
    await message_in(form, WriteRequest.FromString, data)
