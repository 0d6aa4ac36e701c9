"""The client's operators by name, and the conversion of a call to the message of phase one."""

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from functools import cache
from typing import Any, ClassVar, Protocol, TypeVar, cast

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

from opserve.v1 import operator_service_pb2, tensor_pb2
from opserve_client.arguments import (
    ARRAYS,
    INT64,
    array,
    boolean,
    booleans,
    check_owner,
    int64,
    int64s,
    members,
    per_dimension,
    string,
)
from opserve_client.data_types import is_dtype_like
from opserve_client.errors import OpserveError, invalid_argument
from opserve_client.operators.conv2d_backprop_filter import Conv2dBackpropFilter
from opserve_client.operators.conv2d_backprop_input import Conv2dBackpropInput
from opserve_client.operators.conv_depthwise2d import ConvDepthwise2d
from opserve_client.operators.conv_tbc import ConvTbc
from opserve_client.operators.conv_tbc_backward import ConvTbcBackward
from opserve_client.operators.convolution import Convolution
from opserve_client.operators.convolution_backward import ConvolutionBackward
from opserve_client.operators.deconv_grad_filter import DeconvGradFilter
from opserve_client.operators.im2col import Im2col
from opserve_client.operators.im2col_backward import Im2colBackward
from opserve_client.schema import Schema
from opserve_client.tensors import (
    Array,
    DeviceBuffer,
    DeviceTensor,
    OutputArgument,
    TensorSpec,
    is_device_buffer,
    is_device_tensor,
    message_of,
    spec_of,
)
from opserve_kernels.status import AnyStatus

ResultT_co = TypeVar("ResultT_co", covariant=True)

OperatorClass = (
    type[ConvolutionBackward]
    | type[Im2colBackward]
    | type[Conv2dBackpropInput]
    | type[Conv2dBackpropFilter]
    | type[DeconvGradFilter]
    | type[Im2col]
    | type[ConvTbcBackward]
    | type[Convolution]
    | type[ConvDepthwise2d]
    | type[ConvTbc]
)
OPERATORS: Mapping[str, OperatorClass] = {
    "convolution_backward": ConvolutionBackward,
    "im2col_backward": Im2colBackward,
    "conv2d_backprop_input": Conv2dBackpropInput,
    "conv2d_backprop_filter": Conv2dBackpropFilter,
    "deconv_grad_filter": DeconvGradFilter,
    "im2col": Im2col,
    "conv_tbc_backward": ConvTbcBackward,
    "convolution": Convolution,
    "conv_depthwise2d": ConvDepthwise2d,
    "conv_tbc": ConvTbc,
}


class OperatorCall(Protocol[ResultT_co]):
    """The interface of operator classes, whose dataclass fields are the arguments.

    Attributes:
        schema: Schema in the kernels: name, outputs, formats of arrays.
        invalid: Code for a value of the wrong kind, which no message can represent.
        invalid_entry: Code for such an entry of an array of integers.
        buffer_entries: Arguments that may contain a Buffer: None means the argument itself, a
            number the index of its entry.
        functions: The vendor's names of the call, values of its argument `function`, if it has
            several.
    """

    schema: ClassVar[Schema]
    invalid: ClassVar[AnyStatus]
    invalid_entry: ClassVar[AnyStatus]
    buffer_entries: ClassVar[Mapping[str, int | None]]
    functions: ClassVar[tuple[str, ...]]

    def result(self, outputs: Mapping[str, Array]) -> ResultT_co:
        """Returns the outputs by the vendor's names, None where one was not requested."""
        ...

    def dimensions(self) -> Mapping[str, int]:
        """Returns the number of entries of each attribute that an integer sets everywhere.

        The tensors are NumPy arrays, tensors on the device or None.
        """
        ...


def call_of(operator: OperatorClass, arguments: Mapping[str, Any]) -> OperatorCall[Any]:
    """Returns a call with None for each missing argument: a null pointer, or its default."""
    names = (field.name for field in fields(operator))
    made: OperatorCall[Any] = operator(**{**dict.fromkeys(names), **arguments})
    return made


def plain(call: OperatorCall[ResultT_co]) -> OperatorCall[ResultT_co]:
    """Returns the call with NumPy arrays and plain Python values.

    Raises:
        AclnnError: 161002, a value of the wrong kind, such as a bool for a number, or an array of
            complex numbers. In other families DeconvError, or TbeError E60038, but E65001 or E64004
            for an entry that is no integer.
    """
    tensors = tensor_fields(call)
    values = {name: _plain_tensor(call, name) for name in tensors}
    made = _with_values(call, values)
    lengths = made.dimensions()
    values.clear()
    for field in _message_of(call).fields:
        name, value = field.name, getattr(call, field.name)
        if value is None or name in tensors:
            continue
        if name in lengths:
            value = per_dimension(value, lengths[name])
        value = _with_handle(call, name, value)
        values[name] = _plain_value(field, value, name, call)
    return _with_values(made, values)


def _with_values(
    call: OperatorCall[ResultT_co], values: Mapping[str, Any]
) -> OperatorCall[ResultT_co]:
    operator: Any = call  # its class is one of OPERATORS, a dataclass
    made: OperatorCall[ResultT_co] = replace(operator, **values)
    return made


def infer_outputs(call: OperatorCall[Any]) -> dict[str, TensorSpec]:
    """Returns the outputs that session.run creates for a plain call.

    Outputs that malformed arguments leave undefined are missing, and so are outputs with sizes
    above 64 bits.
    """
    schema, tensors = call.schema, tensor_fields(call)
    given: dict[str, object] = {
        field.name: getattr(call, field.name)
        for field in _message_of(call).fields
        if field.name not in schema.OUTPUTS
    }
    for name in given.keys() & tensors:
        value: Array | DeviceTensor | None = getattr(call, name)
        given[name] = spec_of(value, formats=schema.FORMATS)
    inferred = schema.infer_outputs(_arguments(_message_of(call), given, schema))
    return {
        name: tensor
        for name, tensor in inferred.items()
        if all(size in INT64 for size in tensor.shape)
    }


def check_owners(call: OperatorCall[Any], owner: object) -> None:
    """Rejects tensors and buffers of another session (107017)."""
    for name in tensor_fields(call):
        value = getattr(call, name)
        if is_device_tensor(value):
            check_owner(value, owner, parameter=name, word="tensor")
    for name in call.buffer_entries:
        buffer = _named_buffer(call, name)
        if buffer is not None:
            check_owner(buffer, owner, parameter=name, word="buffer")


def is_repeatable(call: OperatorCall[Any]) -> bool:
    """Returns whether a call uses no object of its session, so that another session can run it."""
    tensors = (getattr(call, name) for name in tensor_fields(call))
    named = (_named_value(call, name) for name in call.buffer_entries)
    return not (any(map(is_device_tensor, tensors)) or any(named))


def operator_name(call: OperatorCall[Any]) -> str:
    """Returns the operator's name in snake case, as in the request's oneof.

    Raises:
        AclnnError: 161002, the object is no call of an operator.
    """
    return _name_of(type(call))


def tensor_fields(call: OperatorCall[Any]) -> tuple[str, ...]:
    """Returns the names of the tensor arguments, in the order of the indices of SetTensorBuffer."""
    return _tensor_fields(type(call))


def get_workspace_size_request(
    call: OperatorCall[Any],
    tensors: Mapping[str, TensorSpec],
    *,
    session: str = "",
    executor: int = 0,
) -> operator_service_pb2.GetWorkspaceSizeRequest:
    """Returns the message of phase one; a tensor that is missing in `tensors` is a null pointer."""
    request = operator_service_pb2.GetWorkspaceSizeRequest(session=session, executor=executor)
    name = operator_name(call)
    arguments = getattr(request, name)
    arguments.SetInParent()
    for tensor_name, spec in tensors.items():
        getattr(arguments, tensor_name).CopyFrom(message_of(spec))
    tensor_names = tensor_fields(call)
    names = [field.name for field in _message_of(call).fields]
    _fill(arguments, {other: getattr(call, other) for other in names if other not in tensor_names})
    return request


def device_tensors(call: OperatorCall[Any]) -> dict[str, TensorSpec]:
    """Returns the tensors of a plain call by name, without those that are None.

    Raises:
        AclnnError: 161002, a tensor is not on the device.
    """
    tensors: dict[str, TensorSpec] = {}
    for name in tensor_fields(call):
        value: OutputArgument = getattr(call, name)
        if is_device_tensor(value):
            spec = spec_of(value, formats=call.schema.FORMATS)
            assert spec is not None, "a tensor has one"
            tensors[name] = spec
        elif value is not None:
            allowed = "a tensor of the session (upload, empty)"
            raise _no_tensor(name, value, allowed, status=call.invalid)
    return tensors


def _message_of(call: OperatorCall[Any]) -> Descriptor:
    return _message(type(call))


@cache
def _name_of(kind: type) -> str:
    for name, operator in OPERATORS.items():
        if issubclass(kind, operator):
            return name
    known = ", ".join(operator.__name__ for operator in OPERATORS.values())
    raise invalid_argument("call", kind.__name__, f"a call of an operator: {known}")


@cache
def _message(kind: type) -> Descriptor:
    request = operator_service_pb2.GetWorkspaceSizeRequest.DESCRIPTOR
    message = request.fields_by_name[_name_of(kind)].message_type
    assert message is not None, "every operator of the oneof is a message"
    return message


@cache
def _tensor_fields(kind: type) -> tuple[str, ...]:
    tensor = tensor_pb2.Tensor.DESCRIPTOR
    return tuple(field.name for field in _message(kind).fields if field.message_type is tensor)


def _arguments(form: Descriptor, given: Mapping[str, object], schema: Schema) -> object:
    """Returns the schema's dataclass of a message's name, with nested ones for nested messages."""
    parts = {field.name: field.message_type for field in form.fields}
    arguments: dict[str, object] = {
        name: _arguments(part, cast("Mapping[str, object]", value), schema)
        if isinstance(value, Mapping) and (part := parts[name]) is not None
        else value
        for name, value in given.items()
    }
    kind: type = getattr(schema, form.name)
    return kind(**arguments)


def _fill(message: Message, values: Mapping[str, object]) -> None:
    """Writes plain values into a message; None stays absent."""
    for name, value in values.items():
        if value is None:
            continue
        match value:
            case Mapping():
                part: Message = getattr(message, name)
                part.SetInParent()
                _fill(part, cast("Mapping[str, object]", value))
            case tuple():
                entries = getattr(message, name)
                entries.SetInParent()
                entries.values.extend(value)
            case _:
                setattr(message, name, value)


def _plain_value(
    field: FieldDescriptor, value: object, parameter: str, call: OperatorCall[Any]
) -> object:
    message, status = field.message_type, call.invalid
    if message is tensor_pb2.Int64Array.DESCRIPTOR:
        return int64s(value, parameter=parameter, status=status, entry_status=call.invalid_entry)
    if message is tensor_pb2.BoolArray.DESCRIPTOR:
        return booleans(value, parameter=parameter, status=status)
    if message is not None:
        return _plain_members(message, value, parameter, call)
    if field.type == FieldDescriptor.TYPE_BOOL:
        return boolean(value, parameter=parameter, status=status)
    if field.type == FieldDescriptor.TYPE_STRING:
        return string(value, parameter=parameter, status=status)
    assert field.type == FieldDescriptor.TYPE_INT64, "no operator has an argument of another kind"
    return int64(value, parameter=parameter, status=status)


def _plain_members(
    message: Descriptor, value: object, parameter: str, call: OperatorCall[Any]
) -> dict[str, object]:
    """A dict as the message of its keys takes it."""
    known = {field.name: field for field in message.fields}
    given = members(value, known, parameter=parameter, status=call.invalid)
    return {
        name: _plain_value(known[name], member, f"{parameter}.{name}", call)
        for name, member in given.items()
    }


def _named_buffer(call: OperatorCall[Any], name: str) -> DeviceBuffer | None:
    """The buffer that an argument names as an object; None where it is a number, or wrong."""
    value = _named_value(call, name)
    return value if is_device_buffer(value) else None


def _named_value(call: OperatorCall[Any], name: str) -> object:
    """Returns the value of an argument, or of its entry, that may be a buffer."""
    value: object = getattr(call, name)
    entry = call.buffer_entries[name]
    if entry is None:
        return value
    entries = cast("Sequence[object]", value) if isinstance(value, list | tuple) else ()
    return entries[entry] if len(entries) > entry else None


def _with_handle(call: OperatorCall[Any], name: str, value: Any) -> Any:  # noqa: ANN401  an argument
    """Returns an argument in which the buffer, if it has one, is replaced by its handle."""
    buffer = _named_buffer(call, name) if name in call.buffer_entries else None
    if buffer is None:
        return value
    entry = call.buffer_entries[name]
    return buffer.handle if entry is None else [*value[:entry], buffer.handle, *value[entry + 1 :]]


def _plain_tensor(call: OperatorCall[Any], name: str) -> object:
    """Returns a tensor argument: None, a tensor on the device, a NumPy array, or a dtype."""
    value: object = getattr(call, name)
    is_output = name in call.schema.OUTPUTS
    if value is None or is_device_tensor(value) or (is_output and is_dtype_like(value)):
        return value
    allowed = f"{ARRAYS}; a tensor of the session{', a dtype' if is_output else ''} or None"
    return array(value, parameter=name, allowed=allowed, status=call.invalid)


def _no_tensor(name: str, value: object, allowed: str, *, status: AnyStatus) -> OpserveError:
    return invalid_argument(name, type(value).__name__, allowed, status=status)
