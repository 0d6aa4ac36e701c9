"""Executors: planned calls, and the checks that come before one may run."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from opserve_kernels.errors import InvalidArgument, invalid_argument, null_argument
from opserve_kernels.operator import WORKSPACE_ALIGNMENT, NamedBuffer, Operator, Plan, PlanOptions
from opserve_kernels.profiles import DEFAULT_PROFILE
from opserve_kernels.status import Status
from opserve_kernels.tensor import Tensor, check_tensor
from opserve_server.core.buffers import Buffer
from opserve_server.core.commands import Execute
from opserve_server.core.errors import HandleNotFound, NotSupported
from opserve_server.core.plans import Plans
from opserve_server.pool.messages import KernelCall, Region

BufferOf = Callable[[int], Buffer]


@dataclass(slots=True, eq=False)
class Executor:
    """A planned call.

    Attributes:
        handle: Its handle.
        operator: What it computes.
        plan: How.
        tensors: The tensor arguments in the schema's order; None where null.
        written: Names of the tensors it writes: its outputs but for those its mask leaves out.
        repeatable: Whether it may run more than once.
    """

    handle: int
    operator: Operator[Any]
    plan: Plan
    tensors: list[Tensor | None]
    written: frozenset[str]
    repeatable: bool = False

    @property
    def used_tensors(self) -> Iterator[tuple[int, str, Tensor]]:
        """Index, name and tensor of every argument that a run reads or writes."""
        for index, name in enumerate(self.operator.tensor_fields):
            tensor = self.tensors[index]
            if tensor is not None and (name not in self.operator.outputs or name in self.written):
                yield index, name, tensor

    def set_buffer(self, index: int, buffer: Buffer) -> None:
        """Gives a tensor another buffer.

        Raises:
            InvalidArgument: 161002, there is no such tensor, it was null in phase one, or the
                buffer is too small for it.
        """
        names = self.operator.tensor_fields
        if not 0 <= index < len(names):
            raise invalid_argument("index", given=index, allowed=f"0 to {len(names) - 1}")
        tensor = self.tensors[index]
        if tensor is None:
            raise invalid_argument(
                "index",
                given=f"{index} ({names[index]}), which was null in phase one",
                allowed="a tensor that was given in phase one",
            )
        check_tensor(names[index], tensor, buffer_bytes=buffer.size_bytes)
        self.tensors[index] = replace(tensor, buffer=buffer.handle)


def plan_executor(
    handle: int,
    operator: Operator[Any],
    arguments: object,
    *,
    plans: Plans,
    options: PlanOptions,
    buffer_of: BufferOf,
) -> Executor:
    """Phase one: checks the arguments and plans the call.

    Raises:
        NotSupported: 200001, the profile has no such operator of TBE or FT-DSP.
        HandleNotFound: 107017, a tensor lies in a dead buffer, or an argument names one.
        InvalidArgument: 161001, 161002 or a code of the operator's family, a rule is broken, or
            the profile has no such operator of aclnn;
            207001, a tensor has more elements than any device holds, or the call is larger than
            64 bits can say.
    """
    check_supported(operator, plans.profile)
    tensors: list[Tensor | None] = []
    for name in operator.tensor_fields:
        tensor: Tensor | None = getattr(arguments, name)
        if tensor is not None and tensor.buffer:
            held = buffer_of(tensor.buffer).size_bytes
            check_tensor(name, tensor, buffer_bytes=held)
        tensors.append(tensor)
    plan, written = plans.plan(operator, arguments, options)
    executor = Executor(handle, operator, plan, tensors, written)
    _named_buffers(executor, buffer_of)
    _check_overlaps(executor)
    return executor


def check_supported(operator: Operator[Any], profile: str) -> None:
    """Refuses an operator that the profile does not have, naming those that do.

    Of aclnn with 161002, as the vendor's return table has it; of other families, whose originals
    have no code for it, with 200001.
    """
    if profile in operator.support:
        return
    allowed = ", ".join(operator.support)
    default = " (the default)" if profile == DEFAULT_PROFILE else ""
    message = f"{operator.call}: given profile {profile}{default}, allowed {allowed}"
    given = {"parameter": "profile", "given": profile, "allowed": allowed}
    if operator.family == "aclnn":
        raise InvalidArgument(Status.ACLNN_ERR_PARAM_INVALID, message, **given)
    raise NotSupported(Status.ACL_ERROR_API_NOT_SUPPORT, message, **given)


def kernel_call(
    executor: Executor, command: Execute, *, buffer_of: BufferOf
) -> tuple[KernelCall, list[Buffer]]:
    """Phase two: the call to run and the buffers it uses; changes nothing.

    Raises:
        HandleNotFound: 107017, a tensor's buffer, a named one or the workspace is dead.
        InvalidArgument: 161001, a tensor has no buffer; 161002, the workspace is too small,
            misaligned or overlaps a tensor, or an output overlaps another tensor.
        OutOfMemory: 207001, a client writes to the workspace, and no memory can take its place.
    """
    regions: list[Region | None] = [None] * len(executor.tensors)
    buffers = _named_buffers(executor, buffer_of)
    for index, name, tensor in executor.used_tensors:
        if not tensor.buffer:
            raise null_argument(f"{name}.buffer")
        buffer = buffer_of(tensor.buffer)
        buffers.append(buffer)
        regions[index] = buffer.region
    _check_overlaps(executor)
    workspace = None
    if executor.plan.workspace_size:
        buffer = buffer_of(command.workspace)
        workspace = _workspace(executor, command, buffer)
        buffers.append(buffer)
    call = KernelCall(
        operator=executor.operator.name,
        shares=executor.plan.shares,
        parameters=executor.plan.parameters,
        tensors=tuple(regions),
        workspace=workspace,
        cold=command.cold_caches,
    )
    return call, buffers


def _named_buffers(executor: Executor, buffer_of: BufferOf) -> list[Buffer]:
    """The buffers that the call names besides its tensors, which a device may use as scratch."""
    buffers: list[Buffer] = []
    for named in executor.plan.buffers:
        buffer = _named_buffer(named, buffer_of)
        if buffer.size_bytes < named.size_bytes:
            raise _refused_buffer(
                named,
                given=f"buffer {named.handle} of {buffer.size_bytes} bytes",
                allowed=f"0 or a buffer of at least {named.size_bytes} bytes",
            )
        for _, name, tensor in executor.used_tensors:
            if tensor.buffer == named.handle and _intersect(_bytes(tensor), (0, named.size_bytes)):
                raise _refused_buffer(
                    named,
                    given=f"buffer {named.handle}, where {name} lies",
                    allowed="memory that no tensor of the call uses",
                )
        buffers.append(buffer)
    return buffers


def _named_buffer(named: NamedBuffer, buffer_of: BufferOf) -> Buffer:
    try:
        return buffer_of(named.handle)
    except HandleNotFound as dead:
        allowed = "0 or a live buffer of this session, of which a call in one has none"
        raise HandleNotFound(named.parameter, dead.given, allowed=allowed) from dead


def _refused_buffer(named: NamedBuffer, *, given: str, allowed: str) -> InvalidArgument:
    return invalid_argument(named.parameter, given=given, allowed=allowed, status=named.status)


def _workspace(executor: Executor, command: Execute, buffer: Buffer) -> Region:
    needed = executor.plan.workspace_size
    offset = command.workspace_offset
    if offset < 0 or offset % WORKSPACE_ALIGNMENT:
        raise invalid_argument(
            "workspace_offset", given=offset, allowed=f"a multiple of {WORKSPACE_ALIGNMENT}"
        )
    rest = buffer.size_bytes - offset
    size = rest if command.workspace_size is None else command.workspace_size
    if size > rest:
        raise invalid_argument(
            "workspace_size", given=size, allowed=f"at most {max(rest, 0)}, the rest of its buffer"
        )
    if size < needed:
        raise invalid_argument("workspace_size", given=size, allowed=f"at least {needed} bytes")
    there = [
        *((name, _bytes(t)) for _, name, t in executor.used_tensors if t.buffer == buffer.handle),
        *(
            (named.parameter, (0, named.size_bytes))
            for named in executor.plan.buffers
            if named.handle == buffer.handle
        ),
    ]
    for name, taken in there:
        if _intersect(taken, (offset, offset + needed)):
            raise invalid_argument(
                "workspace",
                given=f"bytes {offset} to {offset + needed} of buffer {buffer.handle}, where "
                f"{name} lies",
                allowed="memory that nothing else of the call uses",
            )
    place = buffer.workspace()
    return Region(place.slab, place.offset + offset, needed)


def _check_overlaps(executor: Executor) -> None:
    """Outputs overlap nothing: a call that is run again after a crash relies on intact inputs."""
    used = [(name, tensor) for _, name, tensor in executor.used_tensors if tensor.buffer]
    for name, output in used:
        if name not in executor.written or output.element_count == 0:
            continue
        if output.strides is not None and output.repeats_elements:
            raise invalid_argument(
                f"{name}.strides",
                given=list(output.element_strides),
                allowed="strides that give each element of an output a place of its own",
            )
        for other_name, other in used:
            if (
                other_name != name
                and other.buffer == output.buffer
                and _intersect(_bytes(output), _bytes(other))
            ):
                raise invalid_argument(
                    name,
                    given=f"memory that overlaps {other_name} in buffer {output.buffer}",
                    allowed="outputs that overlap no other tensor",
                )


def _bytes(tensor: Tensor) -> tuple[int, int]:
    size = tensor.dtype.size_bytes
    if tensor.element_count == 0:
        return (0, 0)
    return (tensor.offset * size, tensor.end * size)


def _intersect(one: tuple[int, int], other: tuple[int, int]) -> bool:
    return max(one[0], other[0]) < min(one[1], other[1])
