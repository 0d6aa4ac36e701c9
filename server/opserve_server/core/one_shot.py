"""One-shot calls: arrays in, arrays out, in a temporary session."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opserve_kernels.operator import Operator
from opserve_kernels.status import Status
from opserve_kernels.tensor import NUMPY_DTYPES, DataType, Format, Tensor
from opserve_server.core.accounts import Reservation
from opserve_server.core.errors import CallTooLarge, InvalidArgument
from opserve_server.core.leases import Lease, leased, opened
from opserve_server.core.memory_commands import Allocate
from opserve_server.core.operator_commands import Execute, GetWorkspaceSize, SetTensorBuffer
from opserve_server.core.principal import Principal
from opserve_server.core.results import Planned, RuleWarning
from opserve_server.core.service import Service
from opserve_server.core.session_request import SessionRequest
from opserve_server.core.stream_commands import SynchronizeStream
from opserve_server.core.whole_calls import WholeCall

Array = NDArray[Any]

SMALL_BYTES = 64 * 1024
"""Bytes of arrays and outputs up to which a call is one command, with its outputs in one piece."""
NUMPY_TYPES: Mapping[DataType, np.dtype[Any]] = MappingProxyType(
    {dtype: numpy.newbyteorder("<") for dtype, numpy in NUMPY_DTYPES.items()}
    | {DataType.BF16: np.dtype("<u2")}
)
"""NumPy type of an array of each data type; BF16, which NumPy lacks, as its bits."""
_DATA_TYPES = {numpy: acl for acl, numpy in NUMPY_TYPES.items() if acl is not DataType.BF16}


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorChoice:
    """A tensor argument of a one-shot call.

    Attributes:
        array: Name of the array that it reads; None for an output.
        dtype: Its data type; None means the array's, or for an output the inferred one.
        format: Its format; None means by the operator's family and the rank - aclnn NCHW in 4
            dimensions and NCDHW in 5, TBE FRACTAL_Z in 4 and NC1HWC0 in 5, FT-DSP NHWC in 4 -
            and else ND, or for an output the inferred one.
    """

    array: str | None = None
    dtype: DataType | None = None
    format: Format | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OneShotCall:
    """A one-shot call.

    Attributes:
        session: Request for the call's session.
        operator: The operator.
        arguments: Fields of its schema; tensors are TensorChoices.
        arrays: The named arrays: row-major, little-endian, of a type in NUMPY_TYPES.
        output_bytes_limit: Bytes of all outputs at most.
    """

    session: SessionRequest
    operator: Operator[Any]
    arguments: Mapping[str, object]
    arrays: Mapping[str, Array]
    output_bytes_limit: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """An output in device memory.

    Attributes:
        name: Name of the argument.
        tensor: Its shape, data type and format.
        chunks: Its bytes, row-major, read on demand.
    """

    name: str
    tensor: Tensor
    chunks: AsyncGenerator[bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class OneShotAnswer:
    """The answer to a whole call.

    Attributes:
        outputs: Each output selected by the mask.
        warnings: Broken rules of the vendor's page, where those are warnings.
    """

    outputs: Sequence[Output]
    warnings: tuple[RuleWarning, ...]


@asynccontextmanager
async def computed(
    service: Service, principal: Principal, call: OneShotCall, in_flight: Reservation
) -> AsyncGenerator[OneShotAnswer]:
    """Runs a call; its outputs stay in memory until the block ends.

    Those of a small call are in the memory of the service, and its session has ended. The session
    of another one lives while its outputs are read: its lease expires after `lease_default_s`
    without a read.

    Args:
        service: The core.
        principal: The caller.
        call: The call.
        in_flight: Bytes in flight of the tenant for this call: on entry those of the arrays. The
            bytes of the outputs are added before anything is computed, and only those remain in the
            block.

    Raises:
        InvalidArgument: 100000, an array is missing or not of the named data type; or phase one
            rejects the call.
        CallTooLarge: 207012, the outputs are too large; QuotaExceeded, for the tenant.
    """
    inputs = _inputs(call)
    arguments = _arguments(call, inputs)
    array_bytes = sum(array.nbytes for array in call.arrays.values())
    output_bytes = _output_bytes(call, arguments)
    # Of a malformed output any number, which phase one rejects.
    if 0 <= output_bytes <= min(SMALL_BYTES - array_bytes, call.output_bytes_limit):
        in_flight.check(output_bytes)
        in_flight.update(array_bytes + output_bytes)
        answer = await _computed_at_once(service, principal, call, arguments, inputs)
        del call, inputs  # a client that reads slowly must not keep the arrays in memory
        in_flight.update(output_bytes)
        yield answer
        return
    async with opened(service, principal, call.session) as lease:
        # Only while it computes: afterwards a client that stops reading must not keep the session.
        with lease.whole_call():
            # Plan before allocating memory: a call that phase one rejects then costs nothing.
            operator = call.operator.name
            planned = await lease.run(GetWorkspaceSize(operator=operator, arguments=arguments))
            assert isinstance(planned, Planned)
            # Known before anything is computed, so a call beyond the quota costs only its plan.
            _check_limit(call, output_bytes)
            in_flight.check(output_bytes)
            in_flight.update(array_bytes + output_bytes)
            outputs = await _compute(lease, call, arguments, inputs, planned.executor)
        del call, inputs  # a client that reads slowly must not keep the arrays in memory
        # The inputs are released; only the outputs are still in transit.
        in_flight.update(output_bytes)
        yield OneShotAnswer(outputs=outputs, warnings=planned.warnings)


async def _computed_at_once(
    service: Service,
    principal: Principal,
    call: OneShotCall,
    arguments: object,
    inputs: Mapping[str, Array],
) -> OneShotAnswer:
    """The answer to a small call, whose session has ended."""
    tensors = _tensors(call, arguments)
    elements = {index: inputs[name].tobytes() for index, name, _ in tensors if name in inputs}
    plan = GetWorkspaceSize(operator=call.operator.name, arguments=arguments)
    async with leased(service, principal, call.session) as lease:
        whole = WholeCall(plan=plan, inputs=elements)
        computed = await service.compute(principal, lease.session, whole)
    outputs = [
        Output(name=name, tensor=tensor, chunks=_only(computed.outputs[index]))
        for index, name, tensor in tensors
        if index in computed.outputs
    ]
    return OneShotAnswer(outputs=outputs, warnings=computed.warnings)


async def _only(chunk: bytes) -> AsyncGenerator[bytes]:
    yield chunk


async def _compute(
    lease: Lease,
    call: OneShotCall,
    arguments: object,
    inputs: Mapping[str, Array],
    executor: int,
) -> Sequence[Output]:
    outputs: list[Output] = []
    for index, name, tensor in _tensors(call, arguments):
        buffer = await lease.allocate(Allocate(size_bytes=max(_size_bytes(tensor), 1)))
        await lease.run(SetTensorBuffer(executor=executor, index=index, buffer=buffer))
        if name in inputs:
            await lease.write(buffer, inputs[name])
        else:
            chunks = lease.chunks(buffer, _size_bytes(tensor))
            outputs.append(Output(name=name, tensor=tensor, chunks=chunks))
    workspace = await lease.allocate(Allocate(workspace_of=executor))
    await lease.run(Execute(executor=executor, workspace=workspace))
    await lease.run(SynchronizeStream())
    return outputs


def _tensors(call: OneShotCall, arguments: object) -> list[tuple[int, str, Tensor]]:
    """The tensors of a call: index among the operator's, name and tensor."""
    return [
        (index, name, tensor)
        for index, name in enumerate(call.operator.tensor_fields)
        if (tensor := getattr(arguments, name)) is not None
    ]


def _inputs(call: OneShotCall) -> dict[str, Array]:
    return {
        name: _array(call, name, choice.array)
        for name, choice in call.arguments.items()
        if isinstance(choice, TensorChoice) and choice.array is not None
    }


def _array(call: OneShotCall, name: str, array: str) -> Array:
    if name in call.operator.outputs:
        raise _invalid(f"arguments.{name}.array", given=array, allowed="none: it is an output")
    if array not in call.arrays:
        known = ", ".join(call.arrays) or "an array of the part tensors, which has none"
        raise _invalid(f"arguments.{name}.array", given=array, allowed=known)
    return call.arrays[array]


def _arguments(call: OneShotCall, inputs: Mapping[str, Array]) -> object:
    choices = {
        name: choice for name, choice in call.arguments.items() if isinstance(choice, TensorChoice)
    }
    tensors = {name: _tensor(call, name, inputs[name], choices[name]) for name in inputs}
    others = {name: value for name, value in call.arguments.items() if name not in choices}
    arguments = call.operator.schema(**others, **tensors)
    outputs = {
        name: _chosen(tensor, choices.get(name, TensorChoice()))
        for name, tensor in call.operator.infer_outputs(arguments).items()
    }
    return replace(arguments, **outputs)


def _tensor(call: OneShotCall, name: str, array: Array, choice: TensorChoice) -> Tensor:
    dtype = choice.dtype or _DATA_TYPES[array.dtype]
    if NUMPY_TYPES.get(dtype) != array.dtype:
        raise _invalid(
            f"arguments.{name}.dtype",
            given=f"{dtype} for an array of {array.dtype}",
            allowed="the data type of the array; BF16 for an array of uint16",
        )
    form = choice.format or call.operator.formats.get(array.ndim, Format.ND)
    return Tensor(shape=array.shape, dtype=dtype, format=form)


def _chosen(tensor: Tensor, choice: TensorChoice) -> Tensor:
    return replace(
        tensor, dtype=choice.dtype or tensor.dtype, format=choice.format or tensor.format
    )


def _output_bytes(call: OneShotCall, arguments: object) -> int:
    """Bytes of all outputs."""
    tensors: list[Tensor | None] = [getattr(arguments, name) for name in call.operator.outputs]
    return sum(_size_bytes(tensor) for tensor in tensors if tensor is not None)


def _check_limit(call: OneShotCall, size: int) -> None:
    if size > call.output_bytes_limit:
        raise CallTooLarge(
            Status.ACL_ERROR_RT_OVER_LIMIT,
            f"The outputs have {size} bytes in all, and {call.output_bytes_limit} are the limit: "
            "use a session, whose outputs are read one by one.",
            parameter="outputs",
            given=size,
            allowed=call.output_bytes_limit,
        )


def _size_bytes(tensor: Tensor) -> int:
    return tensor.element_count * tensor.dtype.size_bytes


def _invalid(parameter: str, *, given: object, allowed: str) -> InvalidArgument:
    return InvalidArgument(
        Status.ACL_ERROR_INVALID_PARAM,
        parameter=parameter,
        given=given,
        allowed=allowed,
    )
