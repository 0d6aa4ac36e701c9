"""Messages in JSON: read as protobuf's own reader does, strictly, and in parts."""

import base64
import json
import math
from collections.abc import Iterator
from typing import Any

import pytest
from google.protobuf import json_format
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from hypothesis import given, settings
from hypothesis import strategies as st

from opserve.v1.command_service_pb2 import Command, SubmitRequest, SubmitResponse
from opserve.v1.memory_service_pb2 import FreeRequest
from opserve.v1.session_service_pb2 import StreamTimeline
from opserve.v1.stream_service_pb2 import StreamEntry
from opserve_server.connect_api.json_messages import json_of, read_json
from opserve_server.core.errors import InvalidArgument
from server.entry_points import every_rpc
from server.loop_iterations import LoopIterations

REQUESTS = {rpc.input_type.full_name: rpc.input_type for rpc in every_rpc()}
ANSWERS = {rpc.output_type.full_name: rpc.output_type for rpc in every_rpc()}
VALUES: dict[int, Any] = {
    FieldDescriptor.TYPE_INT32: -(2**31),
    FieldDescriptor.TYPE_INT64: 2**63 - 1,
    FieldDescriptor.TYPE_UINT32: 2**32 - 1,
    FieldDescriptor.TYPE_UINT64: 2**64 - 1,
    FieldDescriptor.TYPE_FIXED32: 2**32 - 1,
    FieldDescriptor.TYPE_DOUBLE: 2.5,
    FieldDescriptor.TYPE_BOOL: True,
    FieldDescriptor.TYPE_STRING: "é\n\u2028",
    FieldDescriptor.TYPE_BYTES: b"\xfb\xff\xfe\x00",
    FieldDescriptor.TYPE_ENUM: 1,
}


def filled(form: Descriptor, variant: int, depth: int = 3) -> Message:
    """A message with a value in every field, and of each oneof in its field of that number."""
    kind: Any = GetMessageClass(form)
    message: Message = kind()
    for field in form.fields:
        oneof = field.containing_oneof
        if oneof is not None and oneof.fields[variant % len(oneof.fields)] is not field:
            continue
        fill(message, field, variant, depth)
    return message


def fill(message: Message, field: FieldDescriptor, variant: int, depth: int) -> None:
    inner = field.message_type
    if inner is not None and inner.GetOptions().map_entry:
        getattr(message, field.name)["a"] = "b"
    elif inner is not None:
        if depth == 0:
            return
        part = filled(inner, variant, depth - 1)
        if field.is_repeated:
            getattr(message, field.name).extend([part, part])
        else:
            getattr(message, field.name).CopyFrom(part)
    elif field.is_repeated:
        getattr(message, field.name).extend([VALUES[field.type]] * 2)
    else:
        setattr(message, field.name, VALUES[field.type])


def variants(form: Descriptor) -> Iterator[Message]:
    for variant in range(20):
        yield filled(form, variant)


async def read(form: Descriptor, document: object) -> Any:
    text = document if isinstance(document, bytes) else json.dumps(document).encode()
    return await read_json(form, GetMessageClass(form), text)


@pytest.mark.parametrize("form", REQUESTS.values(), ids=lambda form: form.name)
@pytest.mark.parametrize("names", ["camel", "snake"])
async def test_every_field_of_a_request_is_read(form: Descriptor, names: str) -> None:
    for message in variants(form):
        text = json_format.MessageToJson(message, preserving_proto_field_name=names == "snake")
        assert await read(form, text.encode()) == message


@pytest.mark.parametrize("form", ANSWERS.values(), ids=lambda form: form.name)
async def test_every_field_of_an_answer_is_written(form: Descriptor) -> None:
    for message in variants(form):
        assert json.loads(await json_of(message)) == json_format.MessageToDict(message)


WRONG: list[tuple[Any, str, str]] = [
    ([], "message", "an object"),
    (None, "message", "an object"),
    (b"", "message", "an object"),
    (b"\xff", "message", "an object"),
    (b"[" * 5000, "message", "an object"),
    (b'{"session": "\\ud800"}', "message", "an object"),
    ({"sesion": "x"}, "sesion", "session, commands, requestId"),
    ({"session": 1}, "session", "a string"),
    ({"commands": {}}, "commands", "an array"),
    ({"commands": [None]}, "commands.0", "an object"),
    ({"commands": [{}, {"free": []}]}, "commands.1.free", "an object"),
    ({"commands": [{"free": {"buffer": "1_0"}}]}, "commands.0.free.buffer", "an integer"),
    ({"commands": [{"free": {"buffer": 1.5}}]}, "commands.0.free.buffer", "an integer"),
    ({"commands": [{"free": {"buffer": True}}]}, "commands.0.free.buffer", "an integer"),
    ({"commands": [{"free": {"buffer": -1}}]}, "commands.0.free.buffer", "an integer"),
    ({"commands": [{"free": {"buffer": 2**64}}]}, "commands.0.free.buffer", "an integer"),
    ({"commands": [{"free": {}, "fill": {}}]}, "commands.0.command", "one of them"),
    ({"commands": [{"write": {"data": "!!!!"}}]}, "commands.0.write.data", "bytes in base64"),
    ({"commands": [{"write": {"data": "é"}}]}, "commands.0.write.data", "bytes in base64"),
    ({"commands": [{"write": {"data": 7}}]}, "commands.0.write.data", "bytes in base64"),
    (
        {"commands": [{"set_failure_mode": {"mode": "NO"}}]},
        "commands.0.set_failure_mode.mode",
        "FAILURE_MODE_",
    ),
    ({"request_id": "a", "requestId": "a"}, "requestId", "one"),
]


@pytest.mark.parametrize(("document", "parameter", "allowed"), WRONG)
async def test_a_wrong_document_names_its_fault(
    document: object, parameter: str, allowed: str
) -> None:
    with pytest.raises(InvalidArgument) as caught:
        await read(SubmitRequest.DESCRIPTOR, document)
    assert caught.value.parameter == parameter
    assert caught.value.allowed.startswith(allowed)


@pytest.mark.parametrize("text", ["-_8", "-_8=", "+/8", "+/8="])
async def test_bytes_are_read_in_every_form_of_base64(text: str) -> None:
    document = {"commands": [{"write": {"data": text}}]}
    message = await read(SubmitRequest.DESCRIPTOR, document)
    assert message.commands[0].write.data == b"\xfb\xff"


async def test_null_is_an_absent_field() -> None:
    message = await read(SubmitRequest.DESCRIPTOR, {"session": None, "commands": None})
    assert message == SubmitRequest()


@pytest.mark.parametrize("text", ["NaN", "Infinity", "-Infinity", "2.5", "-1e3", 3, 2.5])
async def test_a_number_is_read_from_text_too(text: object) -> None:
    (form,) = (form for form in REQUESTS.values() if form.name == "OpenSessionRequest")
    message = await read(form, {"wait_s": text})
    assert message.wait_s == float(str(text)) or math.isnan(message.wait_s)
    wrongs: list[object] = ["1e", "0x1", " 1", "1_0", "", [], True, "nan"]
    for wrong in wrongs:
        with pytest.raises(InvalidArgument):
            await read(form, {"wait_s": wrong})
    with pytest.raises(InvalidArgument):
        await read(form, b'{"wait_s": 1e400}')


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["session", "commands", "free", "write", "data", "buffer", "requestId"]
            ),
            inner,
            max_size=3,
        )
    ),
    max_leaves=8,
)


@settings(max_examples=60)
@given(document=JSON)
async def test_any_document_is_a_message_or_an_invalid_argument(document: Any) -> None:
    form: Any = SubmitRequest.DESCRIPTOR
    try:
        message = await read(form, document)
    except InvalidArgument:
        return
    own = json_format.ParseDict(document, SubmitRequest())
    assert message == own, "protobuf's reader accepts whatever this one does"


async def test_a_large_document_is_read_in_parts() -> None:
    form: Any = SubmitRequest.DESCRIPTOR
    commands = [{"free": {"buffer": number}} for number in range(5000)]
    iterations = LoopIterations()
    message = await read(form, {"session": "x", "commands": commands, "requestId": "y"})
    assert iterations.count > 20
    assert message == SubmitRequest(
        session="x",
        request_id="y",
        commands=[Command(free=FreeRequest(buffer=number)) for number in range(5000)],
    )
    commands[4321] = {"free": {"buffer": "x"}}  # type: ignore[dict-item]
    with pytest.raises(InvalidArgument, match=r"^commands\.4321\.free\.buffer does not accept x"):
        await read(form, {"session": "x", "commands": commands})


TOO_LARGE: list[Any] = [
    {"session": ["x"] * 10_000},
    {"commands": [{"get_workspace_size": {"x": [1] * 10_000}}]},
    {"session": "x" * 300_000},
    {"commands": [{"write": {"data": base64.b64encode(bytes(300_000)).decode()}}]},
    {"commands": [{}] * 270_000},
]


@pytest.mark.parametrize("document", TOO_LARGE)
async def test_what_no_part_can_contain_is_rejected(document: object) -> None:
    form: Any = SubmitRequest.DESCRIPTOR
    with pytest.raises(InvalidArgument, match="it accepts at most"):
        await read(form, document)


async def test_a_large_answer_is_written_in_parts() -> None:
    answer = SubmitResponse()
    for number in range(5000):
        answer.results.add().allocate.buffer = number
    iterations = LoopIterations()
    text = await json_of(answer)
    assert iterations.count > 2
    assert json.loads(text) == json_format.MessageToDict(answer)
    timeline = StreamTimeline(stream=3, entries=[StreamEntry(sequence=7)] * 5000)
    assert json.loads(await json_of(timeline)) == json_format.MessageToDict(timeline)
