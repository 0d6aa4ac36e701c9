"""Every operator of the client, by name, and how a call becomes the message of phase one."""

from collections.abc import Mapping
from typing import Any, Protocol, TypeVar

import numpy as np

from opserve.v1 import operator_service_pb2, tensor_pb2
from opserve_client.data_types import Format
from opserve_client.operators.convolution_backward import ConvolutionBackward
from opserve_client.operators.im2col_backward import Im2colBackward
from opserve_client.tensors import Array, OutputArgument, TensorSpec

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


def operator_name(call: OperatorCall[Any]) -> str:
    """Snake-case name of the operator, as in the request's oneof.

    Raises:
        TypeError: Not a call of an operator.
    """
    for name, operator in OPERATORS.items():
        if isinstance(call, operator):
            return name
    known = ", ".join(operator.__name__ for operator in OPERATORS.values())
    raise TypeError(f"given {type(call).__name__}, allowed a call of an operator: {known}")


def tensor_fields(call: OperatorCall[Any]) -> tuple[str, ...]:
    """Names of the tensor arguments, in the order that SetTensorBuffer counts."""
    request = operator_service_pb2.GetWorkspaceSizeRequest.DESCRIPTOR
    message = request.fields_by_name[operator_name(call)].message_type
    assert message is not None, "every operator of the oneof is a message"
    tensor = tensor_pb2.Tensor.DESCRIPTOR
    return tuple(field.name for field in message.fields if field.message_type is tensor)


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
    """The tensors of a call by name; those that are None are left out.

    Raises:
        TypeError: One is not on the device.
    """
    tensors: dict[str, TensorSpec] = {}
    for name in tensor_fields(call):
        value: OutputArgument = getattr(call, name)
        if value is None:
            continue
        if isinstance(value, np.ndarray | str | np.dtype | type):
            kind = type(value).__name__
            raise TypeError(
                f"{name}: given {kind}, allowed a tensor of the session (upload, empty)"
            )
        tensors[name] = value.spec
    return tensors
