"""The JSON form of every message of the protos."""

import json
from typing import Any

import pytest
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from hypothesis import given, settings
from hypothesis import strategies as st

from opserve.v1.command_service_pb2 import Command, CommandResult
from opserve.v1.conformance_service_pb2 import VerifyResponse
from opserve.v1.memory_service_pb2 import FillRequest, WriteRequest
from opserve.v1.operator_service_pb2 import GetWorkspaceSizeRequest
from opserve.v1.stream_service_pb2 import FAILURE_MODE_STOP, SetFailureModeRequest
from opserve.v1.tensor_pb2 import DATA_TYPE_BF16, FORMAT_NC1HWC0, BoolArray, Int64Array, Tensor
from opserve_client.wire.admin_methods import ADMIN_METHODS
from opserve_client.wire.conformance_methods import CONFORMANCE_METHODS
from opserve_client.wire.json_messages import Json, fields_of, from_json, is_map, to_json
from opserve_client.wire.methods import METHODS

_CALLS = (*METHODS, *ADMIN_METHODS, *CONFORMANCE_METHODS)
MESSAGES: list[type[Message]] = [m.request for m in _CALLS] + [m.response for m in _CALLS]
INTEGERS = {
    FieldDescriptor.TYPE_FIXED32: (0, 2**32 - 1),
    FieldDescriptor.TYPE_UINT32: (0, 2**32 - 1),
    FieldDescriptor.TYPE_UINT64: (0, 2**64 - 1),
    FieldDescriptor.TYPE_INT64: (-(2**63), 2**63 - 1),
}


def values_of(field: FieldDescriptor) -> st.SearchStrategy[Any]:
    if field.message_type is not None:
        return messages(GetMessageClass(field.message_type))
    if field.enum_type is not None:
        return st.sampled_from(sorted(field.enum_type.values_by_number))
    if field.type in INTEGERS:
        low, high = INTEGERS[field.type]
        return st.integers(low, high)
    return {
        FieldDescriptor.TYPE_STRING: st.text(max_size=5),
        FieldDescriptor.TYPE_BYTES: st.binary(max_size=5),
        FieldDescriptor.TYPE_BOOL: st.booleans(),
        FieldDescriptor.TYPE_DOUBLE: st.floats(allow_nan=False, allow_infinity=False),
    }[field.type]


@st.composite
def messages(draw: st.DrawFn, kind: type[Message]) -> Message:
    message = kind()
    choices: dict[str, list[str]] = {}
    for field in fields_of(kind):
        if field.containing_oneof is not None:
            choices.setdefault(field.containing_oneof.name, []).append(field.name)
    chosen = {draw(st.sampled_from(names)) for names in choices.values()}
    passed_over = {name for names in choices.values() for name in names} - chosen
    for field in fields_of(kind):
        if field.name in passed_over or not draw(st.booleans()):
            continue
        if is_map(field):
            texts = st.text(max_size=5)
            getattr(message, field.name).update(draw(st.dictionaries(texts, texts, max_size=3)))
        elif field.is_repeated:
            items = draw(st.lists(values_of(field), max_size=3))
            getattr(message, field.name).extend(items)
        elif field.message_type is not None:
            getattr(message, field.name).CopyFrom(draw(values_of(field)))
        else:
            setattr(message, field.name, draw(values_of(field)))
    return message


each_kind = pytest.mark.parametrize("kind", MESSAGES, ids=lambda kind: kind.__name__)


@each_kind
@settings(max_examples=10)
@given(data=st.data())
def test_every_message_survives_json(kind: type[Message], data: st.DataObject) -> None:
    survives_json(data.draw(messages(kind)), kind)


@pytest.mark.slow
@each_kind
@settings(max_examples=50)
@given(data=st.data())
def test_every_message_of_many_survives_json(kind: type[Message], data: st.DataObject) -> None:
    survives_json(data.draw(messages(kind)), kind)


def survives_json(message: Message, kind: type[Message]) -> None:
    text = json.dumps(to_json(message), allow_nan=False)
    assert from_json(json.loads(text), kind) == message


def test_the_forms_are_those_of_the_contract() -> None:
    tensor = Tensor(
        shape=[2, 0],
        dtype=DATA_TYPE_BF16,
        format=FORMAT_NC1HWC0,
        strides=Int64Array(values=[1, 2]),
        buffer=3,
    )
    assert to_json(tensor) == {
        "shape": [2, 0],
        "dtype": "BF16",
        "format": "NC1HWC0",
        "strides": [1, 2],
        "buffer": 3,
    }
    request = GetWorkspaceSizeRequest(executor=1)
    request.convolution_backward.stride.SetInParent()
    request.convolution_backward.output_mask.CopyFrom(BoolArray(values=[True, False]))
    request.convolution_backward.groups = 0
    assert to_json(Command(get_workspace_size=request)) == {
        "get_workspace_size": {
            "executor": 1,
            "convolution_backward": {"stride": [], "output_mask": [True, False], "groups": 0},
        }
    }
    assert to_json(WriteRequest(data=b"\x00\xff"))["data"] == "AP8="
    assert to_json(SetFailureModeRequest(mode=FAILURE_MODE_STOP))["mode"] == "STOP"
    assert to_json(FillRequest(session="s")) == {"session": "s"}


def test_a_text_that_is_json_becomes_an_object() -> None:
    answer = from_json({"case": "one", "verdict": {"status": "PASSED"}}, VerifyResponse)
    assert (answer.case, json.loads(answer.verdict)) == ("one", {"status": "PASSED"})


def test_null_is_absent_and_unknown_members_are_passed_over() -> None:
    read = from_json({"shape": [1], "strides": None, "new_in_version_9": {}}, Tensor)
    assert read == Tensor(shape=[1])


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ([], Tensor),
        ({"dtype": "COMPLEX"}, Tensor),
        ({"shape": "12"}, Tensor),
        ({"buffer": 2**40}, Tensor),
        ({"data": "not base64!"}, WriteRequest),
        ({"error": 3}, CommandResult),
    ],
)
def test_a_value_that_does_not_fit_its_field_is_refused(value: Json, kind: type[Message]) -> None:
    with pytest.raises(ValueError, match=r"does not accept|given|:"):
        from_json(value, kind)
