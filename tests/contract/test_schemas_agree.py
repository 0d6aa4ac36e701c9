"""The schema, the proto message and the client's class of an operator have the same arguments."""

from dataclasses import fields

import pytest
from google.protobuf.descriptor import Descriptor

from contract.faces import CLIENT_CLASSES
from opserve.v1 import tensor_pb2
from opserve.v1.operator_service_pb2 import GetWorkspaceSizeRequest
from opserve_client import DataType as ClientDataType
from opserve_client import Format as ClientFormat
from opserve_kernels.registry import OPERATORS
from opserve_kernels.tensor import DataType, Format, Tensor


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


def test_every_operator_has_its_place_in_the_request() -> None:
    oneof = GetWorkspaceSizeRequest.DESCRIPTOR.oneofs_by_name["operator"]
    assert {field.name for field in oneof.fields} == set(OPERATORS) == set(CLIENT_CLASSES)


@pytest.mark.parametrize("name", OPERATORS)
def test_every_argument_can_be_absent(name: str) -> None:
    assert all(field.has_presence for field in message_of(name).fields)
    assert OPERATORS[name].schema() == OPERATORS[name].schema(
        **{field.name: None for field in fields(OPERATORS[name].schema)}
    )


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
    assert {dtype.name for dtype in ClientDataType} == {dtype.name for dtype in DataType}
    assert {format_.name for format_ in ClientFormat} == {format_.name for format_ in Format}


def test_a_tensor_has_the_same_parts_everywhere() -> None:
    parts = {field.name for field in tensor_pb2.Tensor.DESCRIPTOR.fields}
    assert parts == {field.name for field in fields(Tensor)}
