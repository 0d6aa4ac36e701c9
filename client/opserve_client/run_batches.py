"""Requests of session.run: a whole call, or batches with the commands that free its objects."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from opserve.v1.command_service_pb2 import Command, CommandResult
from opserve.v1.memory_service_pb2 import (
    AllocateRequest,
    FreeRequest,
    ReadRequest,
    WriteRequest,
)
from opserve.v1.operator_service_pb2 import (
    DestroyExecutorRequest,
    ExecuteRequest,
    RunRequest,
    RunResponse,
    SetTensorBufferRequest,
    TensorData,
)
from opserve.v1.stream_service_pb2 import SynchronizeStreamRequest
from opserve_client.data_types import DTypeLike, data_type_of, is_dtype_like
from opserve_client.errors import OpserveError, error_from_result
from opserve_client.handles import Handles, next_handle
from opserve_client.operators import (
    OperatorCall,
    get_workspace_size_request,
    infer_outputs,
    tensor_fields,
)
from opserve_client.tensors import (
    Array,
    DeviceTensor,
    TensorSpec,
    elements_of,
    span_bytes,
    spec_of,
    start_bytes,
)
from opserve_kernels.array_like import as_array, bytes_of
from opserve_kernels.tensor import BYTES_MAXIMUM, DataType

SMALL_BYTES = 64 * 2**10
"""Most bytes of tensors, both ways, of a call that takes one round trip; and of one in a batch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A tensor that the run creates on the device; data is None for an output."""

    name: str
    index: int
    spec: TensorSpec
    data: memoryview | None

    @property
    def is_small(self) -> bool:
        """Whether its elements are written in a batch of commands."""
        return self.data is not None and len(self.data) <= SMALL_BYTES

    @property
    def allocate(self) -> AllocateRequest:
        """The request for its buffer. An empty tensor needs one too: null pointers do not run."""
        return AllocateRequest(size_bytes=max(1, span_bytes(self.spec)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A call of session.run.

    Attributes:
        call: The call as the user wrote it.
        parts: Tensors to create on the device.
        given: Tensors that are on the device already, or that phase one will reject.
        results: Outputs to read back.
        size_bytes: Bytes to transfer, both ways.
    """

    call: OperatorCall[Any]
    parts: tuple[Part, ...]
    given: Mapping[str, TensorSpec]
    results: Mapping[str, TensorSpec]
    size_bytes: int

    def placed(self, buffers: Mapping[str, int]) -> dict[str, TensorSpec]:
        """Returns all tensors, the parts in these buffers."""
        made = {
            part.name: replace(part.spec, buffer=buffers.get(part.name, 0)) for part in self.parts
        }
        return {**self.given, **made}


def prepare(call: OperatorCall[Any]) -> Prepared:
    """Sorts the tensors of a plain call; malformed arguments are left to the service to reject."""
    inferred = infer_outputs(call)
    parts: list[Part] = []
    given: dict[str, TensorSpec] = {}
    for index, name in enumerate(tensor_fields(call)):
        value: Array | DeviceTensor | DTypeLike | None = getattr(call, name)
        spec = _spec(name, value, inferred.get(name), call)
        if spec is None:
            continue
        if _is_on_device(value) or not _can_be_made(spec):
            given[name] = spec
        else:
            data = None
            if isinstance(value, np.ndarray) and name not in call.schema.OUTPUTS:
                data = bytes_of(value)
            parts.append(Part(name=name, index=index, spec=spec, data=data))
    there = given | {part.name: part.spec for part in parts}
    results = {
        name: there[name] for name in inferred if name in there and _can_be_made(there[name])
    }
    sent = sum(len(part.data) for part in parts if part.data is not None)
    read = sum(span_bytes(spec) for spec in results.values())
    return Prepared(
        call=call, parts=tuple(parts), given=given, results=results, size_bytes=sent + read
    )


def _spec(
    name: str,
    value: "Array | DeviceTensor | DTypeLike | None",
    inferred: TensorSpec | None,
    call: OperatorCall[Any],
) -> TensorSpec | None:
    """Returns the tensor of an argument; None or a dtype means the inferred tensor."""
    if value is None:
        return inferred
    if is_dtype_like(value):
        dtype = data_type_of(value, parameter=name, status=call.invalid)
        return inferred and replace(inferred, dtype=dtype)
    return spec_of(value, formats=call.schema.FORMATS)


def _is_on_device(value: object) -> bool:
    return value is not None and not isinstance(value, np.ndarray) and not is_dtype_like(value)


def _can_be_made(spec: TensorSpec) -> bool:
    """Returns whether such memory can exist; if not, the service rejects the tensor."""
    strides = (0,) * len(spec.shape) if spec.strides is None else spec.strides
    return (
        spec.dtype is not DataType.UNDEFINED
        and len(strides) == len(spec.shape)
        and min((*spec.shape, *strides), default=0) >= 0
        and span_bytes(spec) <= BYTES_MAXIMUM
    )


class WholeCall:
    """The request of a whole call, for calls of one shape: all of it but the elements of arrays.

    Args:
        prepared: A call of the shape.
    """

    def __init__(self, prepared: Prepared) -> None:
        self._plan = get_workspace_size_request(prepared.call, prepared.placed({}))
        self._inputs = [(part.index, part.name) for part in prepared.parts if part.data]
        indices = {name: index for index, name in enumerate(tensor_fields(prepared.call))}
        self._outputs = [(indices[name], name, spec) for name, spec in prepared.results.items()]

    def request(self, call: OperatorCall[Any], session: str) -> RunRequest:
        """Builds the request of a call of the shape."""
        inputs = [
            TensorData(index=index, data=bytes(bytes_of(as_array(getattr(call, name)))))
            for index, name in self._inputs
        ]
        return RunRequest(session=session, plan=self._plan, inputs=inputs)

    def outputs(self, answer: RunResponse) -> dict[str, Array]:
        """Returns the outputs by name."""
        found = {output.index: output.data for output in answer.outputs}
        return {
            name: elements_of(spec, bytearray(found[index])) for index, name, spec in self._outputs
        }


def planned_call(prepared: Prepared, last: Handles) -> list[Command]:
    """Builds phase one and all allocations: a rejected call fails before its bytes are sent.

    Phase one runs on null pointers, which `set_tensor_buffer` replaces: so it comes before the
    allocations, and a rejected call allocates nothing.
    """
    executor = next_handle("executor", last.executor)
    commands = plan_and_allocate(prepared, prepared.placed({}), executor=executor)
    for ahead, part in enumerate(prepared.parts, start=2):
        buffer = next_handle("buffer", last.buffer, ahead=ahead)
        placing = SetTensorBufferRequest(executor=executor, index=part.index, buffer=buffer)
        commands.append(Command(allocate=part.allocate))
        commands.append(Command(set_tensor_buffer=placing))
    return commands


def plan_and_allocate(
    prepared: Prepared, tensors: Mapping[str, TensorSpec], *, executor: int
) -> list[Command]:
    """Builds phase one, and the allocation of its workspace."""
    request = get_workspace_size_request(prepared.call, tensors, executor=executor)
    return [
        Command(get_workspace_size=request),
        Command(allocate=AllocateRequest(workspace_of=executor)),
    ]


def is_small(spec: TensorSpec) -> bool:
    """Returns whether the elements of a tensor are read in a batch of commands."""
    return span_bytes(spec) <= SMALL_BYTES


def small_writes(prepared: Prepared, buffers: Mapping[str, int]) -> list[Command]:
    """Builds the writes of small tensors into these buffers."""
    return [
        Command(write=WriteRequest(buffer=buffers[part.name], data=bytes(part.data)))
        for part in prepared.parts
        if part.data and part.is_small
    ]


def execute_and_wait(*, executor: int, workspace: int) -> list[Command]:
    """Builds phase two on the default stream, and the wait for it."""
    return [
        Command(execute=ExecuteRequest(executor=executor, workspace=workspace)),
        Command(synchronize_stream=SynchronizeStreamRequest()),
    ]


def read_request(spec: TensorSpec) -> ReadRequest:
    """Builds the read from the first element of a tensor to its last."""
    return ReadRequest(buffer=spec.buffer, offset=start_bytes(spec), size_bytes=span_bytes(spec))


def first_error(results: Sequence[CommandResult]) -> OpserveError | None:
    """Returns the error that ended a batch, or None."""
    if results and results[-1].HasField("error"):
        return error_from_result(results[-1].error)
    return None


@dataclass(slots=True)
class DeviceObjects:
    """Buffers and executors that a run has created and not yet freed."""

    buffers: list[int] = field(default_factory=list[int])
    executors: list[int] = field(default_factory=list[int])

    def update(self, commands: Iterable[Command], results: Iterable[CommandResult]) -> None:
        """Adds what the commands created and removes what they freed, as far as they ran."""
        for command, result in zip(commands, results, strict=False):
            match result.WhichOneof("result"):
                case "allocate" if result.allocate.buffer:
                    self.buffers.append(result.allocate.buffer)
                case "free":
                    self.buffers.remove(command.free.buffer)
                case "get_workspace_size":
                    self.executors.append(result.get_workspace_size.executor)
                case "execute":
                    self.executors.remove(command.execute.executor)
                case _:
                    pass

    def cleanup(self) -> list[Command]:
        """Builds the commands that free all objects.

        Executors come last: the service may have destroyed a rejected one, and the error of that
        command ends the batch.
        """
        return [
            *(Command(free=FreeRequest(buffer=buffer)) for buffer in self.buffers),
            *(
                Command(destroy_executor=DestroyExecutorRequest(executor=executor))
                for executor in self.executors
            ),
        ]
