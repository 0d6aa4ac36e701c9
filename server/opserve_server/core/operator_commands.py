"""Commands on executors, with their handlers: both phases, and repeated calls."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from opserve_kernels.errors import InvalidArgument, invalid_argument, null_argument, rejection
from opserve_kernels.operator import WORKSPACE_ALIGNMENT, NamedBuffer, Operator
from opserve_kernels.operator import RuleWarning as BrokenRule
from opserve_kernels.profiles import DEFAULT_PROFILE
from opserve_kernels.registry import OPERATORS
from opserve_kernels.status import Status
from opserve_kernels.tensor import Tensor, check_tensor
from opserve_server.core.buffers import Buffer
from opserve_server.core.errors import HandleNotFound, NotSupported, WrongState
from opserve_server.core.executors import Executor
from opserve_server.core.handler import Handler, Handlers
from opserve_server.core.observations import concerns_operator
from opserve_server.core.results import Done, Planned, RuleWarning
from opserve_server.core.session import Session
from opserve_server.core.work import KernelRun
from opserve_server.pool.messages import KernelCall, Region

BufferOf = Callable[[int], Buffer]


@dataclass(frozen=True, slots=True, kw_only=True)
class GetWorkspaceSize:
    """Phase one of an operator; arguments is an instance of the operator's schema.

    Attributes:
        operator: Name of the operator, as in the registry.
        arguments: Instance of its schema.
        executor: Handle of the new executor, chosen by the client; 0: the service chooses it.
    """

    operator: str
    arguments: Any
    executor: int = 0


async def _get_workspace_size(session: Session, command: GetWorkspaceSize) -> Planned:
    """Checks the arguments, plans the call and makes its executor.

    Raises:
        NotSupported: 200001, the profile has no such operator of TBE or FT-DSP.
        HandleNotFound: 107017, the buffer of a tensor or argument is dead.
        InvalidArgument: 161001, 161002 or a code of the operator's family, a rule is broken, or
            the profile has no such operator of aclnn;
            207001, a tensor has more elements than any device holds, or the call is larger than
            64 bits can say.
    """
    # Checked first and added last: a rejected call leaves no trace in the tables.
    handle = session.executors.next_handle(command.executor)
    operator, tensors = checked_tensors(session, command)
    planned = session.plans.plan(operator, command.arguments, session.plan_options)
    executor = Executor(handle, operator, planned, tensors)
    check_memory(session, executor)
    session.executors.put(handle, executor)
    return Planned(
        workspace_size=executor.plan.workspace_size, executor=handle, warnings=warnings_of(executor)
    )


def checked_tensors(
    session: Session, command: GetWorkspaceSize
) -> tuple[Operator[Any], list[Tensor | None]]:
    """The operator of a call, which the device supports, and its tensors, each in its buffer."""
    concerns_operator(command.operator)
    operator = OPERATORS[command.operator]
    check_supported(operator, session.plans.profile)
    tensors: list[Tensor | None] = []
    for name in operator.tensor_fields:
        tensor: Tensor | None = getattr(command.arguments, name)
        if tensor is not None and tensor.buffer:
            held = session.buffers.get(tensor.buffer).size_bytes
            check_tensor(name, tensor, buffer_bytes=held)
        tensors.append(tensor)
    return operator, tensors


def check_memory(session: Session, executor: Executor) -> None:
    """Rejects a call with named buffers that are too small, or memory that overlaps."""
    named_buffers(executor, session.buffers.get)
    _check_overlaps(executor)


def warnings_of(executor: Executor) -> tuple[RuleWarning, ...]:
    """Broken rules of the vendor's page."""
    return tuple(map(_warning, executor.plan.warnings))


@dataclass(frozen=True, slots=True, kw_only=True)
class Execute:
    """Phase two: submits an executor; without workspace_size the rest of the buffer is used.

    With timeout_ms it must end within that many milliseconds; with cold_caches none of its bytes is
    cached when it begins.

    Attributes:
        executor: Handle of the executor.
        workspace: Handle of the buffer that holds the workspace; 0: none.
        workspace_offset: First byte of the workspace in its buffer.
        workspace_size: Bytes of the workspace; None: the rest of the buffer.
        stream: Handle of the stream that runs it.
        timeout_ms: Milliseconds from now within which it must end; None: no deadline.
        cold_caches: Whether none of its bytes is cached when it begins.
    """

    executor: int = 0
    workspace: int = 0
    workspace_offset: int = 0
    workspace_size: int | None = None
    stream: int = 0
    timeout_ms: int | None = None
    cold_caches: bool = False


async def _execute(session: Session, command: Execute) -> Done:
    if command.executor == 0:
        raise null_argument("executor")
    executor = session.executors.get(command.executor)
    concerns_operator(executor.operator.name)
    stream = session.streams.get(command.stream)
    timeout_s = _timeout_s(command.timeout_ms)
    # All checks come before the submission, which cannot be undone.
    check_accepts_calls(session)
    if executor.plan.workspace_size and not command.workspace:
        # As the vendor does: Execute without a needed workspace ends the executor.
        session.executors.remove(command.executor)
        raise null_argument("workspace")
    call, buffers = _kernel_call(executor, command, buffer_of=session.buffers.get)
    work = KernelRun(executor.handle, call, timeout_s)
    # In this order without an await: from the submission on the memory counts as used, so neither a
    # free nor a copy can come between.
    stream.submit(work)
    keep_until_done(session, work, buffers)
    if not executor.repeatable:
        session.executors.remove(command.executor)
    return Done()


def check_accepts_calls(session: Session) -> None:
    """Rejects a call in a session that a failed stream stopped, or without device time left."""
    if session.stopped_streams:
        handle = min(session.stopped_streams)
        raise WrongState(
            Status.ACL_ERROR_RT_STREAM_ABORT,
            f"Stream {handle} failed in STOP mode, so its session runs no more work: destroy that "
            "stream first.",
            parameter="stream",
            given=handle,
            allowed="work after the failed stream is destroyed",
        )
    session.account.check_device_time()


def keep_until_done(session: Session, work: KernelRun, buffers: Iterable[Buffer]) -> None:
    """Keeps the memory of a call until it is done."""
    for buffer in buffers:
        buffer.used_by(work.done)
    if work.call.workspace is not None:
        # No client may map the workspace's slab before the call is done.
        session.memory.hide(work.call.workspace, work.done)


@dataclass(frozen=True, slots=True, kw_only=True)
class SetRepeatable:
    """Lets an executor run any number of times.

    Attributes:
        executor: Handle of the executor.
    """

    executor: int = 0


async def _set_repeatable(session: Session, command: SetRepeatable) -> Done:
    session.executors.get(command.executor).repeatable = True
    return Done()


@dataclass(frozen=True, slots=True, kw_only=True)
class SetTensorBuffer:
    """Assigns another buffer to the index-th tensor of an executor.

    Attributes:
        executor: Handle of the executor.
        index: Position of the tensor among those of the operator, from 0.
        buffer: Handle of the buffer that holds its elements from now on.
    """

    executor: int = 0
    index: int = 0
    buffer: int = 0


async def _set_tensor_buffer(session: Session, command: SetTensorBuffer) -> Done:
    executor = session.executors.get(command.executor)
    null = Status.ACLNN_ERR_INNER_NULLPTR
    executor.set_buffer(command.index, session.buffers.get(command.buffer, null_status=null))
    return Done()


@dataclass(frozen=True, slots=True, kw_only=True)
class DestroyExecutor:
    """Ends an executor.

    Attributes:
        executor: Handle of the executor.
    """

    executor: int = 0


async def _destroy_executor(session: Session, command: DestroyExecutor) -> Done:
    session.executors.remove(command.executor)
    return Done()


OperatorCommand = GetWorkspaceSize | Execute | SetRepeatable | SetTensorBuffer | DestroyExecutor
OPERATOR_COMMANDS: Handlers = {
    GetWorkspaceSize: Handler(_get_workspace_size, new_work=True, long=True),
    Execute: Handler(_execute, new_work=True),
    SetRepeatable: Handler(_set_repeatable),
    SetTensorBuffer: Handler(_set_tensor_buffer),
    DestroyExecutor: Handler(_destroy_executor),
}


def check_supported(operator: Operator[Any], profile: str) -> None:
    """Rejects an operator that the profile does not have, and names those that it has.

    The code is 161002 for aclnn, as in the vendor's return table, and 200001 for other families,
    whose originals have no code for it.
    """
    if profile in operator.support:
        return
    allowed = ", ".join(operator.support)
    default = " (the default)" if profile == DEFAULT_PROFILE else ""
    message = f"{operator.call} does not run on {profile}{default}: use one of {allowed}."
    given = {"parameter": "profile", "given": profile, "allowed": allowed}
    if operator.family == "aclnn":
        raise InvalidArgument(Status.ACLNN_ERR_PARAM_INVALID, message, **given)
    raise NotSupported(Status.ACL_ERROR_API_NOT_SUPPORT, message, **given)


def _kernel_call(
    executor: Executor, command: Execute, *, buffer_of: BufferOf
) -> tuple[KernelCall, list[Buffer]]:
    """Phase two: the call to run and the buffers it uses; changes nothing.

    Raises:
        HandleNotFound: 107017, a tensor's buffer, a named one or the workspace is dead.
        InvalidArgument: 161001, a tensor has no buffer; 161002, the workspace is too small,
            misaligned or overlaps a tensor, or an output overlaps another tensor.
        OutOfMemory: 207001, a client can write to the workspace, and no memory is left for a
            substitute.
    """
    regions: list[Region | None] = [None] * len(executor.tensors)
    buffers = named_buffers(executor, buffer_of)
    for used, tensor in executor.used_tensors:
        if not tensor.buffer:
            raise null_argument(f"{used.name}.buffer")
        buffer = buffer_of(tensor.buffer)
        buffers.append(buffer)
        regions[used.index] = buffer.region
    # Again, since SetTensorBuffer may have moved tensors since phase one.
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


def named_buffers(executor: Executor, buffer_of: BufferOf) -> list[Buffer]:
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
        for used, tensor in executor.used_tensors:
            taken = used.start, used.end
            if tensor.buffer == named.handle and _intersect(taken, (0, named.size_bytes)):
                raise _refused_buffer(
                    named,
                    given=f"buffer {named.handle}, the place of {used.name}",
                    allowed="memory that no tensor of the call uses",
                )
        buffers.append(buffer)
    return buffers


def _named_buffer(named: NamedBuffer, buffer_of: BufferOf) -> Buffer:
    try:
        return buffer_of(named.handle)
    except HandleNotFound as dead:
        allowed = "0 or a live buffer of this session, of which a call in one has none"
        message = rejection(named.parameter, given=f"buffer {dead.given}", allowed=allowed)
        raise HandleNotFound(
            named.parameter, dead.given, allowed=allowed, message=message
        ) from dead


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
        *(
            (used.name, (used.start, used.end))
            for used, tensor in executor.used_tensors
            if tensor.buffer == buffer.handle
        ),
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
    # Last, since it may allocate a substitute.
    place = buffer.workspace()
    return Region(place.slab, place.offset + offset, needed)


def _check_overlaps(executor: Executor) -> None:
    """Outputs overlap nothing, since a call that runs again after a crash needs intact inputs."""
    placed = [(used, tensor) for used, tensor in executor.used_tensors if tensor.buffer]
    for output, tensor in placed:
        if not output.written or not output.span:
            continue
        if tensor.strides is not None and tensor.repeats_elements:
            raise invalid_argument(
                f"{output.name}.strides",
                given=list(tensor.element_strides),
                allowed="strides that give each element of an output a place of its own",
            )
        for other, there in placed:
            if (
                other is not output
                and there.buffer == tensor.buffer
                and _intersect((output.start, output.end), (other.start, other.end))
            ):
                raise invalid_argument(
                    output.name,
                    given=f"memory that overlaps {other.name} in buffer {tensor.buffer}",
                    allowed="outputs that overlap no other tensor",
                )


def _intersect(one: tuple[int, int], other: tuple[int, int]) -> bool:
    return max(one[0], other[0]) < min(one[1], other[1])


def _warning(broken: BrokenRule) -> RuleWarning:
    return RuleWarning(
        code=broken.status.value,
        name=broken.status.name,
        domain=broken.status.domain,
        parameter=broken.parameter,
        given=broken.given,
        allowed=broken.allowed,
        sentence=broken.sentence,
    )


def _timeout_s(timeout_ms: int | None) -> float | None:
    if timeout_ms is None:
        return None
    if timeout_ms < 1:
        raise InvalidArgument(
            Status.ACL_ERROR_RT_PARAM_INVALID,
            f"timeout_ms is {timeout_ms}: pass at least 1, or none for no deadline.",
            parameter="timeout_ms",
            given=timeout_ms,
            allowed="at least 1",
        )
    return timeout_ms / 1000.0
