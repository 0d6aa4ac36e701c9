"""Every operator of the client, by name, and how a call becomes the message of phase one."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Protocol, TypeVar

import numpy as np
from google.protobuf.descriptor import Descriptor, FieldDescriptor

from opserve.v1 import operator_service_pb2, tensor_pb2
from opserve_client.arguments import boolean, booleans, check_owner, int64, int64s
from opserve_client.data_types import Format
from opserve_client.errors import OpserveError, invalid_argument
from opserve_client.operators.convolution_backward import ConvolutionBackward
from opserve_client.operators.im2col_backward import Im2colBackward
from opserve_client.tensors import Array, DeviceTensor, OutputArgument, TensorSpec

ResultT_co = TypeVar("ResultT_co", covariant=True)

OPERATORS: Mapping[str, type[ConvolutionBackward] | type[Im2colBackward]] = {
    "convolution_backward": ConvolutionBackward,
    "im2col_backward": Im2colBackward,
}


class OperatorCall(Protocol[ResultT_co]):
    """What every operator's class offers; its dataclass fields are the arguments."""

    def asked_outputs(self) -> tuple[str, ...]:
        """Names of the outputs that the arguments ask for; empty where they do not say."""
        ...

    def infer_outputs(self) -> Mapping[str, TensorSpec]:
        """The output tensors that the arguments imply; what cannot be inferred is left out."""
        ...

    def array_format(self, rank: int) -> Format:
        """The format of an array argument of that rank."""
        ...

    def result(self, outputs: Mapping[str, Array]) -> ResultT_co:
        """The outputs by the vendor's names, None where one was not asked for."""
        ...


def plain(call: OperatorCall[ResultT_co]) -> OperatorCall[ResultT_co]:
    """The call with plain values, which NumPy's are not; what no argument can be is refused.

    Raises:
        AclnnError: 161002, a value of the wrong kind: a bool where a number is due, a list where
            an array is, ...
    """
    fields = _message_of(call).fields
    operator: Any = call  # its class is one of OPERATORS, whose results are named tuples
    outputs = operator.result({})._fields
    values: dict[str, Any] = {}
    for field in fields:
        value = getattr(operator, field.name)
        if value is None:
            continue
        if field.message_type is tensor_pb2.Tensor.DESCRIPTOR:
            _check_tensor(field.name, value, is_output=field.name in outputs)
        else:
            values[field.name] = _plain_value(field, value)
    made: OperatorCall[ResultT_co] = replace(operator, **values)
    return made


def check_owners(call: OperatorCall[Any], owner: object) -> None:
    """Refuses tensors of another session (107017)."""
    for name in tensor_fields(call):
        value = getattr(call, name)
        if isinstance(value, DeviceTensor):
            check_owner(value, owner, parameter=name, word="tensor")


def operator_name(call: OperatorCall[Any]) -> str:
    """Snake-case name of the operator, as in the request's oneof.

    Raises:
        AclnnError: 161002, not a call of an operator.
    """
    for name, operator in OPERATORS.items():
        if isinstance(call, operator):
            return name
    known = ", ".join(operator.__name__ for operator in OPERATORS.values())
    raise invalid_argument("call", type(call).__name__, f"a call of an operator: {known}")


def tensor_fields(call: OperatorCall[Any]) -> tuple[str, ...]:
    """Names of the tensor arguments, in the order that SetTensorBuffer counts."""
    tensor = tensor_pb2.Tensor.DESCRIPTOR
    fields = _message_of(call).fields
    return tuple(field.name for field in fields if field.message_type is tensor)


def get_workspace_size_request(
    call: OperatorCall[Any],
    tensors: Mapping[str, TensorSpec],
    *,
    session: str = "",
    executor: int = 0,
) -> operator_service_pb2.GetWorkspaceSizeRequest:
    """The message of phase one; None, or a tensor that is not in `tensors`, is a null pointer."""
    request = operator_service_pb2.GetWorkspaceSizeRequest(session=session, executor=executor)
    name = operator_name(call)
    arguments = getattr(request, name)
    arguments.SetInParent()
    tensor_names = tensor_fields(call)
    for field_name, descriptor in arguments.DESCRIPTOR.fields_by_name.items():
        value = getattr(call, field_name)
        if field_name in tensor_names:
            if field_name in tensors:
                getattr(arguments, field_name).CopyFrom(tensors[field_name].to_message())
        elif value is not None and descriptor.message_type is not None:
            array = getattr(arguments, field_name)
            array.SetInParent()
            array.values.extend(value)
        elif value is not None:
            setattr(arguments, field_name, value)
    return request


def device_tensors(call: OperatorCall[Any]) -> dict[str, TensorSpec]:
    """The tensors of a plain call by name; those that are None are left out.

    Raises:
        AclnnError: 161002, one is not on the device.
    """
    tensors: dict[str, TensorSpec] = {}
    for name in tensor_fields(call):
        value: OutputArgument = getattr(call, name)
        if isinstance(value, DeviceTensor):
            tensors[name] = value.spec
        elif value is not None:
            raise _no_tensor(name, value, "a tensor of the session (upload, empty)")
    return tensors


def _message_of(call: OperatorCall[Any]) -> Descriptor:
    request = operator_service_pb2.GetWorkspaceSizeRequest.DESCRIPTOR
    message = request.fields_by_name[operator_name(call)].message_type
    assert message is not None, "every operator of the oneof is a message"
    return message


def _plain_value(field: FieldDescriptor, value: object) -> object:
    if field.message_type is tensor_pb2.Int64Array.DESCRIPTOR:
        return int64s(value, parameter=field.name)
    if field.message_type is tensor_pb2.BoolArray.DESCRIPTOR:
        return booleans(value, parameter=field.name)
    if field.type == FieldDescriptor.TYPE_BOOL:
        return boolean(value, parameter=field.name)
    assert field.type == FieldDescriptor.TYPE_INT64, "no operator has an argument of another kind"
    return int64(value, parameter=field.name)


def _check_tensor(name: str, value: object, *, is_output: bool) -> None:
    allowed = "a NumPy array, a tensor of the session"
    if is_output and not isinstance(value, np.ndarray | DeviceTensor):
        if not isinstance(value, str | np.dtype | type):
            raise _no_tensor(name, value, f"{allowed}, a dtype or None")
    elif not isinstance(value, np.ndarray | DeviceTensor):
        raise _no_tensor(name, value, f"{allowed} or None")


def _no_tensor(name: str, value: object, allowed: str) -> OpserveError:
    return invalid_argument(name, type(value).__name__, allowed)
