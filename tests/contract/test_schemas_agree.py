"""The schema, the proto message and the client's class of an operator have the same arguments."""

from dataclasses import fields, replace
from types import NoneType
from typing import Any, get_args, get_type_hints, is_typeddict

import numpy as np
import pytest
from google.protobuf.descriptor import Descriptor, FieldDescriptor

from contract.apis import CLIENT_CLASSES, client_scalars
from kernels.samples import REGISTRY_SAMPLES
from opserve.v1 import tensor_pb2
from opserve.v1.operator_service_pb2 import GetWorkspaceSizeRequest
from opserve_client.arguments import ACCURACIES, DETERMINISTIC_LEVELS, DOCUMENTED_RULES
from opserve_client.operators import call_of, infer_outputs, plain
from opserve_kernels.operator import Accuracy, DocumentedRules
from opserve_kernels.registry import OPERATORS
from opserve_kernels.tensor import DataType, Format, Tensor
from opserve_server.core.service import DeterministicLevel

KINDS: dict[Any, object] = {
    Tensor: "Tensor",
    tuple[int, ...]: "Int64Array",
    tuple[bool, ...]: "BoolArray",
    int: FieldDescriptor.TYPE_INT64,
    bool: FieldDescriptor.TYPE_BOOL,
    str: FieldDescriptor.TYPE_STRING,
}
"""Wire types of a schema's types; every other one is a dataclass with a message of its name."""


def message_of(name: str) -> Descriptor:
    message = GetWorkspaceSizeRequest.DESCRIPTOR.fields_by_name[name].message_type
    assert message is not None
    return message


@pytest.mark.parametrize("name", OPERATORS)
def test_schema_proto_and_client_have_the_same_arguments(name: str) -> None:
    schema = [field.name for field in fields(OPERATORS[name].schema)]
    message = message_of(name)
    client = [field.name for field in fields(CLIENT_CLASSES[name])]
    assert schema == [field.name for field in message.fields] == client


@pytest.mark.parametrize("name", OPERATORS)
def test_parts_of_arguments_have_the_same_names_and_kinds(name: str) -> None:
    schema, message = OPERATORS[name].schema, message_of(name)
    compare_parts(schema, message, CLIENT_CLASSES[name])


def compare_parts(schema: type, message: Descriptor, client: type) -> None:
    """Compares dataclasses inside a schema with messages and TypedDicts, however deep."""
    for argument, hint in get_type_hints(schema).items():
        field = message.fields_by_name[argument]
        part = field.message_type
        (kind,) = {kind for kind in get_args(hint) if kind is not NoneType}
        if kind not in KINDS:
            assert part is not None
            (typed,) = (
                one for one in get_args(client.__annotations__[argument]) if is_typeddict(one)
            )
            assert [f.name for f in fields(kind)] == [f.name for f in part.fields]
            assert list(typed.__annotations__) == [f.name for f in part.fields]
            assert all(f.has_presence for f in part.fields)
            assert kind.__name__ == part.name == typed.__name__
            compare_parts(kind, part, typed)
        elif part is not None:
            assert part.name == KINDS[kind]
        else:
            assert field.type == KINDS[kind]


def test_every_operator_has_its_place_in_the_request() -> None:
    oneof = GetWorkspaceSizeRequest.DESCRIPTOR.oneofs_by_name["operator"]
    assert {field.name for field in oneof.fields} == set(OPERATORS) == set(CLIENT_CLASSES)


@pytest.mark.parametrize("name", OPERATORS)
def test_every_argument_can_be_absent(name: str) -> None:
    assert all(field.has_presence for field in message_of(name).fields)
    assert OPERATORS[name].schema() == OPERATORS[name].schema(
        **{field.name: None for field in fields(OPERATORS[name].schema)}
    )


@pytest.mark.parametrize("name", OPERATORS)
def test_client_and_service_infer_the_same_outputs(name: str) -> None:
    operator = OPERATORS[name]
    for sample in REGISTRY_SAMPLES[name]:
        # An array has the format of its rank, which is never NDHWC.
        if any(tensor and tensor.format is Format.NDHWC for tensor in sample.tensors.values()):
            continue
        bare = replace(sample.arguments(), **dict.fromkeys(operator.outputs))
        service = operator.infer_outputs(bare)
        call = plain(CLIENT_CLASSES[name](**sample.arrays(), **client_scalars(sample)))
        client = infer_outputs(call)
        assert {
            output: (tensor.shape, str(tensor.dtype)) for output, tensor in service.items()
        } == {output: (spec.shape, str(spec.dtype)) for output, spec in client.items()}, sample.name
        assert client.keys() <= set(operator.outputs)


def test_data_types_and_formats_are_the_vendors_numbers_plus_one() -> None:
    on_the_wire = {
        name.removeprefix("DATA_TYPE_"): number - 1 for name, number in tensor_pb2.DataType.items()
    }
    assert on_the_wire.pop("UNSPECIFIED") == DataType.UNDEFINED.acl_number
    assert on_the_wire == {
        str(dtype): dtype.acl_number for dtype in DataType if dtype is not DataType.UNDEFINED
    }
    formats = {
        name.removeprefix("FORMAT_"): number - 1 for name, number in tensor_pb2.Format.items()
    }
    assert formats.pop("UNSPECIFIED") == Format.UNDEFINED.acl_number
    assert formats == {
        str(format_): format_.acl_number for format_ in Format if format_ is not Format.UNDEFINED
    }


def test_a_tensor_has_the_same_parts_everywhere() -> None:
    parts = {field.name for field in tensor_pb2.Tensor.DESCRIPTOR.fields}
    assert parts == {field.name for field in fields(Tensor)}


def test_a_session_may_request_every_option_of_the_service() -> None:
    assert set(ACCURACIES) == set(Accuracy)
    assert set(DOCUMENTED_RULES) == set(DocumentedRules)
    assert set(DETERMINISTIC_LEVELS) == {level.name.lower() for level in DeterministicLevel}


def test_results_of_the_client_have_the_outputs_of_the_schema() -> None:
    for name, operator in OPERATORS.items():
        outputs = {output: np.zeros(1) for output in operator.outputs}
        result = call_of(CLIENT_CLASSES[name], {}).result(outputs)
        assert result._asdict() == outputs
