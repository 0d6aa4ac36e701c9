"""Every operator of the client, by name, and how a call becomes the message of phase one."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Protocol, TypeVar, cast

import numpy as np
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

from opserve.v1 import operator_service_pb2, tensor_pb2
from opserve_client.arguments import (
    boolean,
    booleans,
    check_owner,
    int64,
    int64s,
    members,
    string,
)
from opserve_client.data_types import Format, data_type_of, is_dtype_like
from opserve_client.errors import OpserveError, invalid_argument
from opserve_client.operators.conv2d_backprop_filter import Conv2dBackpropFilter
from opserve_client.operators.conv2d_backprop_input import Conv2dBackpropInput
from opserve_client.operators.convolution_backward import ConvolutionBackward
from opserve_client.operators.deconv_grad_filter import DeconvGradFilter
from opserve_client.operators.im2col_backward import Im2colBackward
from opserve_client.tensors import (
    Array,
    DeviceBuffer,
    DeviceTensor,
    OutputArgument,
    TensorSpec,
    spec_of,
)

ResultT_co = TypeVar("ResultT_co", covariant=True)

OperatorClass = (
    type[ConvolutionBackward]
    | type[Im2colBackward]
    | type[Conv2dBackpropInput]
    | type[Conv2dBackpropFilter]
    | type[DeconvGradFilter]
)
OPERATORS: Mapping[str, OperatorClass] = {
    "convolution_backward": ConvolutionBackward,
    "im2col_backward": Im2colBackward,
    "conv2d_backprop_input": Conv2dBackpropInput,
    "conv2d_backprop_filter": Conv2dBackpropFilter,
    "deconv_grad_filter": DeconvGradFilter,
}


class OperatorCall(Protocol[ResultT_co]):
    """What every operator's class offers; its dataclass fields are the arguments.

    Attributes:
        vendor_name: As the vendor names the call: "aclnnConvolutionBackward".
        domain: Family of its errors: "opserve", "opserve.tbe" or "opserve.ft_dsp".
        buffer_entries: Arguments that may name a buffer: a number, or that entry of an array.
        entry_status: What an entry that is no integer is refused with; None: as any wrong value.
        functions: The vendor's names of the call, each an option `function` of it, if it has many.
    """

    vendor_name: ClassVar[str]
    domain: ClassVar[str]
    buffer_entries: ClassVar[Mapping[str, int | None]]
    entry_status: ClassVar[tuple[int, str] | None]
    functions: ClassVar[tuple[str, ...]]

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
            an array is, ...; DeconvError, or TbeError E60038, but E65001 or E64004 for an entry
            that is no integer.
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
            is_output = field.name in outputs
            _check_tensor(field.name, value, is_output=is_output, domain=call.domain)
        else:
            value = _with_handle(call, field.name, value)
            values[field.name] = _plain_value(field, value, field.name, call)
    made: OperatorCall[ResultT_co] = replace(operator, **values)
    return made


def check_owners(call: OperatorCall[Any], owner: object) -> None:
    """Refuses tensors and buffers of another session (107017)."""
    for name in tensor_fields(call):
        value = getattr(call, name)
        if isinstance(value, DeviceTensor):
            check_owner(value, owner, parameter=name, word="tensor")
    for name in call.buffer_entries:
        buffer = _named_buffer(call, name)
        if buffer is not None:
            check_owner(buffer, owner, parameter=name, word="buffer")


def is_repeatable(call: OperatorCall[Any]) -> bool:
    """Whether a call uses nothing that is on a device, so that it can be made again elsewhere."""
    tensors = (getattr(call, name) for name in tensor_fields(call))
    named = (_named_value(call, name) for name in call.buffer_entries)
    return not (any(isinstance(tensor, DeviceTensor) for tensor in tensors) or any(named))


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
    for tensor_name, spec in tensors.items():
        getattr(arguments, tensor_name).CopyFrom(spec.to_message())
    names = [field.name for field in _message_of(call).fields]
    others = set(names).difference(tensor_fields(call))
    _fill(arguments, {other: getattr(call, other) for other in others})
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
            spec = spec_of(value, array_format=call.array_format)
            assert spec is not None, "a tensor has one"
            tensors[name] = spec
        elif value is not None:
            allowed = "a tensor of the session (upload, empty)"
            raise _no_tensor(name, value, allowed, domain=call.domain)
    return tensors


def _message_of(call: OperatorCall[Any]) -> Descriptor:
    request = operator_service_pb2.GetWorkspaceSizeRequest.DESCRIPTOR
    message = request.fields_by_name[operator_name(call)].message_type
    assert message is not None, "every operator of the oneof is a message"
    return message


def _fill(message: Message, values: Mapping[str, object]) -> None:
    """Writes plain values into a message; those that are None stay absent."""
    for name, value in values.items():
        if value is None:
            continue
        match value:
            case Mapping():
                part: Message = getattr(message, name)
                part.SetInParent()
                _fill(part, cast("Mapping[str, object]", value))
            case tuple():
                array = getattr(message, name)
                array.SetInParent()
                array.values.extend(value)
            case _:
                setattr(message, name, value)


def _plain_value(
    field: FieldDescriptor, value: object, parameter: str, call: OperatorCall[Any]
) -> object:
    message, domain = field.message_type, call.domain
    if message is tensor_pb2.Int64Array.DESCRIPTOR:
        return int64s(value, parameter=parameter, domain=domain, entry_status=call.entry_status)
    if message is tensor_pb2.BoolArray.DESCRIPTOR:
        return booleans(value, parameter=parameter, domain=domain)
    if message is not None:
        return _plain_members(message, value, parameter, call)
    if field.type == FieldDescriptor.TYPE_BOOL:
        return boolean(value, parameter=parameter, domain=domain)
    if field.type == FieldDescriptor.TYPE_STRING:
        return string(value, parameter=parameter, domain=domain)
    assert field.type == FieldDescriptor.TYPE_INT64, "no operator has an argument of another kind"
    return int64(value, parameter=parameter, domain=domain)


def _plain_members(
    message: Descriptor, value: object, parameter: str, call: OperatorCall[Any]
) -> dict[str, object]:
    """A dict as the message of its keys takes it."""
    fields = {field.name: field for field in message.fields}
    given = members(value, fields, parameter=parameter, domain=call.domain)
    return {
        name: _plain_value(fields[name], member, f"{parameter}.{name}", call)
        for name, member in given.items()
    }


def _named_buffer(call: OperatorCall[Any], name: str) -> DeviceBuffer | None:
    """The buffer that an argument names as an object; None where it is a number, or wrong."""
    value = _named_value(call, name)
    return value if isinstance(value, DeviceBuffer) else None


def _named_value(call: OperatorCall[Any], name: str) -> object:
    """What an argument has in the place of a buffer."""
    value: object = getattr(call, name)
    entry = call.buffer_entries[name]
    if entry is None:
        return value
    entries = cast("Sequence[object]", value) if isinstance(value, list | tuple) else ()
    return entries[entry] if len(entries) > entry else None


def _with_handle(call: OperatorCall[Any], name: str, value: Any) -> Any:  # noqa: ANN401  an argument
    """An argument with the handle of the buffer that it names in that buffer's place."""
    buffer = _named_buffer(call, name) if name in call.buffer_entries else None
    if buffer is None:
        return value
    entry = call.buffer_entries[name]
    return buffer.handle if entry is None else [*value[:entry], buffer.handle, *value[entry + 1 :]]


def _check_tensor(name: str, value: object, *, is_output: bool, domain: str) -> None:
    allowed = "a NumPy array, a tensor of the session"
    if isinstance(value, DeviceTensor):
        return
    if isinstance(value, np.ndarray):
        data_type_of(cast("Array", value).dtype, domain=domain)
    elif not is_output:
        raise _no_tensor(name, value, f"{allowed} or None", domain=domain)
    elif not is_dtype_like(value):
        raise _no_tensor(name, value, f"{allowed}, a dtype or None", domain=domain)


def _no_tensor(name: str, value: object, allowed: str, *, domain: str) -> OpserveError:
    return invalid_argument(name, type(value).__name__, allowed, domain=domain)
