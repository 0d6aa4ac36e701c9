"""A case on a session: its tensors as they lie in memory, the call, and the memory after it."""

from collections.abc import Collection, Iterable, Mapping
from time import perf_counter

import numpy as np

from opserve.v1.command_service_pb2 import Command, CommandResult
from opserve.v1.memory_service_pb2 import AllocateRequest, FreeRequest, ReadRequest, WriteRequest
from opserve.v1.operator_service_pb2 import DestroyExecutorRequest, GetWorkspaceSizeRequest
from opserve_client._sync.session import Session
from opserve_client.errors import ExecutionFailed, OpserveError, QuotaExceeded, may_pass
from opserve_client.operators import OPERATORS, get_workspace_size_request
from opserve_client.rule_warnings import DocumentedRuleWarning
from opserve_client.run_batches import SMALL_BYTES, History, execute_and_wait
from opserve_kernels.cases.case import Case
from opserve_kernels.cases.fill import Array
from opserve_kernels.conformance.target import Broken, Ran, Refused
from opserve_kernels.verdict.verdict import Code

_BATCH_BYTES = 16 * SMALL_BYTES
"""A service's limit on the data of a batch; SMALL_BYTES is that on a tensor's."""


def plan_on(session: Session, case: Case) -> Ran | Refused | Broken:
    """Phase one alone, with tensors that lie nowhere: whether the call is refused.

    Raises:
        OpserveError: Something else than the call was refused or failed.
    """
    executor = session.last_handles.executor + 1
    request = _request(case, {}, executor)
    destroy = Command(destroy_executor=DestroyExecutorRequest(executor=executor))
    try:
        results = session.submit([Command(get_workspace_size=request), destroy])
    except OpserveError as error:
        return _failed(error, phase_one=0)
    return Ran(outputs={}, warnings=_warnings_in(results))


def run_on(
    session: Session, case: Case, storages: Mapping[str, Array], *, read: Collection[str]
) -> Ran | Refused | Broken:
    """The whole call.

    Args:
        session: On a device of the case's profile.
        case: The call.
        storages: Flat memory of every tensor before the call; it stays as it is.
        read: The tensors whose memory is wanted after the call, every output among them.

    Raises:
        OpserveError: Something else than the call was refused or failed.
    """
    sizes = [storage.nbytes for storage in storages.values()]
    is_small = max(sizes) <= SMALL_BYTES and 2 * sum(sizes) <= _BATCH_BYTES
    run = _run_at_once if is_small else _run_in_steps
    history = History()
    try:
        return run(session, case, storages, history, read)
    finally:
        if leftovers := history.leftovers():
            session.submit(leftovers)


def _run_at_once(
    session: Session,
    case: Case,
    storages: Mapping[str, Array],
    history: History,
    wanted: Collection[str],
) -> Ran | Refused | Broken:
    """Bytes inside the batch, in one round trip."""
    last = session.last_handles
    buffers = {name: last.buffer + n for n, name in enumerate(storages, 1)}
    workspace = last.buffer + len(buffers) + 1
    full = {buffers[name]: storage for name, storage in storages.items() if storage.nbytes}
    before = [_allocate(storages[name], buffer) for name, buffer in buffers.items()]
    before += [
        Command(write=WriteRequest(buffer=buffer, data=storage.tobytes()))
        for buffer, storage in full.items()
    ]
    commands = [*before, *_call(case, buffers, workspace, last.executor + 1)]
    commands += [
        Command(read=ReadRequest(buffer=buffers[name], size_bytes=storages[name].nbytes))
        for name in wanted
        if storages[name].nbytes
    ]
    commands += [Command(free=FreeRequest(buffer=one)) for one in (*buffers.values(), workspace)]
    started = perf_counter()
    try:
        results = _submitted(session, commands, history)
    except OpserveError as error:
        results = list(error.results)
        # A call without a workspace has none to free: the batch ends with the refusal of that.
        if len(results) < len(commands) - 1:
            return _failed(error, phase_one=len(before))
    seconds = perf_counter() - started
    read = iter([result.read.data for result in results if result.HasField("read")])
    found = {
        name: np.frombuffer(
            bytearray(next(read) if storages[name].nbytes else b""), storages[name].dtype
        )
        for name in wanted
    }
    return Ran(storages=found, seconds=seconds, warnings=_warnings_in(results))


def _run_in_steps(
    session: Session,
    case: Case,
    storages: Mapping[str, Array],
    history: History,
    wanted: Collection[str],
) -> Ran | Refused | Broken:
    """Bytes on their own way."""
    last = session.last_handles
    numbers = {name: last.buffer + n for n, name in enumerate(storages, 1)}
    _submitted(session, [_allocate(storages[name], numbers[name]) for name in numbers], history)
    buffers = {
        name: session.buffer(number, size_bytes=max(1, storages[name].nbytes))
        for name, number in numbers.items()
    }
    for name, buffer in buffers.items():
        buffer.write(storages[name])
    workspace = last.buffer + len(numbers) + 1
    started = perf_counter()
    try:
        call = _call(case, numbers, workspace, last.executor + 1)
        results = _submitted(session, call, history)
    except OpserveError as error:
        return _failed(error, phase_one=0)
    seconds = perf_counter() - started
    found = {
        name: np.frombuffer(
            bytearray(buffers[name].read(size_bytes=storages[name].nbytes)), storages[name].dtype
        )
        for name in wanted
    }
    return Ran(storages=found, seconds=seconds, warnings=_warnings_in(results))


def _submitted(session: Session, commands: list[Command], history: History) -> list[CommandResult]:
    try:
        results = session.submit(commands)
    except OpserveError as error:
        history.note(commands, error.results)
        raise
    history.note(commands, results)
    return results


def _call(case: Case, buffers: Mapping[str, int], workspace: int, executor: int) -> list[Command]:
    request = _request(case, buffers, executor)
    return [
        Command(get_workspace_size=request),
        Command(allocate=AllocateRequest(workspace_of=executor, buffer=workspace)),
        *execute_and_wait(executor=executor, workspace=workspace),
    ]


def _request(case: Case, buffers: Mapping[str, int], executor: int) -> GetWorkspaceSizeRequest:
    call = OPERATORS[case.operator](**case.arguments)  # type: ignore[arg-type]  # the case's form
    tensors = {
        name: tensor.tensor(buffer=buffers.get(name, 0)) for name, tensor in case.tensors.items()
    }
    return get_workspace_size_request(call, tensors, executor=executor)


def _allocate(storage: Array, buffer: int) -> Command:
    return Command(allocate=AllocateRequest(size_bytes=max(1, storage.nbytes), buffer=buffer))


def _failed(error: OpserveError, *, phase_one: int) -> Refused | Broken:
    """Phase one's refusal of the call, or a kernel that failed; everything else is raised.

    Args:
        error: Of the batch.
        phase_one: Place of phase one in the batch.
    """
    depends_on_time = may_pass(error) or isinstance(error, QuotaExceeded)
    if error.failed_command == phase_one and not depends_on_time:
        number = error.code if isinstance(error.code, int) else None
        return Refused(code=Code(number=number, name=error.name), reason=error.message)
    if isinstance(error, ExecutionFailed):
        return Broken(reason=str(error))
    raise error


def _warnings_in(results: Iterable[CommandResult]) -> tuple[DocumentedRuleWarning, ...]:
    return tuple(
        DocumentedRuleWarning(broken)
        for result in results
        if result.HasField("get_workspace_size")
        for broken in result.get_workspace_size.warnings
    )
