"""Conformance cases in a session: tensor memory before the call, the call, and memory after it."""

from collections.abc import Collection, Iterable, Mapping
from time import perf_counter

import numpy as np

from opserve.v1.command_service_pb2 import Command, CommandResult
from opserve.v1.memory_service_pb2 import AllocateRequest, FreeRequest, ReadRequest, WriteRequest
from opserve.v1.operator_service_pb2 import DestroyExecutorRequest, GetWorkspaceSizeRequest
from opserve_client._sync.session import Session
from opserve_client.errors import ExecutionFailed, OpserveError, QuotaExceeded, is_transient
from opserve_client.operators import OPERATORS, call_of, get_workspace_size_request
from opserve_client.rule_warnings import DocumentedRuleWarning
from opserve_client.run_batches import SMALL_BYTES, DeviceObjects, execute_and_wait
from opserve_kernels.cases.case import Case
from opserve_kernels.cases.fill import Array
from opserve_kernels.conformance.target import Broken, Ran, Refused
from opserve_kernels.verdict.verdict import Code

_BATCH_BYTES = 16 * SMALL_BYTES
"""A service's limit on the data of a batch; SMALL_BYTES is its limit on the data of a tensor."""


def plan_on(session: Session, case: Case) -> Ran | Refused | Broken:
    """Runs phase one alone, on null pointers, to see whether the call is rejected.

    Raises:
        OpserveError: Another error than the rejection of the call.
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
    """Runs the whole call.

    Args:
        session: Session on a device of the case's profile.
        case: The call.
        storages: Flat memory of every tensor before the call; it is not changed.
        read: Names of the tensors to read after the call, with every output among them.

    Raises:
        OpserveError: Another error than the rejection or failure of the call.
    """
    sizes = [storage.nbytes for storage in storages.values()]
    is_small = max(sizes) <= SMALL_BYTES and 2 * sum(sizes) <= _BATCH_BYTES
    run = _run_in_one_batch if is_small else _run_in_steps
    made = DeviceObjects()
    try:
        return run(session, case, storages, made, read)
    finally:
        if cleanup := made.cleanup():
            session.submit(cleanup)


def _run_in_one_batch(
    session: Session,
    case: Case,
    storages: Mapping[str, Array],
    made: DeviceObjects,
    wanted: Collection[str],
) -> Ran | Refused | Broken:
    """Runs the call in one batch with the bytes of its tensors: one round trip."""
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
        results = _submitted(session, commands, made)
    except OpserveError as error:
        results = list(error.results)
        # The last command frees the workspace. A call without one fails there, after its outputs.
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
    made: DeviceObjects,
    wanted: Collection[str],
) -> Ran | Refused | Broken:
    """Runs the call in a batch, and transfers the bytes of its tensors apart from it."""
    last = session.last_handles
    numbers = {name: last.buffer + n for n, name in enumerate(storages, 1)}
    _submitted(session, [_allocate(storages[name], numbers[name]) for name in numbers], made)
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
        results = _submitted(session, call, made)
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


def _submitted(
    session: Session, commands: list[Command], made: DeviceObjects
) -> list[CommandResult]:
    try:
        results = session.submit(commands)
    except OpserveError as error:
        made.update(commands, error.results)
        raise
    made.update(commands, results)
    return results


def _call(case: Case, buffers: Mapping[str, int], workspace: int, executor: int) -> list[Command]:
    request = _request(case, buffers, executor)
    return [
        Command(get_workspace_size=request),
        Command(allocate=AllocateRequest(workspace_of=executor, buffer=workspace)),
        *execute_and_wait(executor=executor, workspace=workspace),
    ]


def _request(case: Case, buffers: Mapping[str, int], executor: int) -> GetWorkspaceSizeRequest:
    call = call_of(OPERATORS[case.operator], case.arguments)
    tensors = {
        name: tensor.tensor(buffer=buffers.get(name, 0)) for name, tensor in case.tensors.items()
    }
    return get_workspace_size_request(call, tensors, executor=executor)


def _allocate(storage: Array, buffer: int) -> Command:
    return Command(allocate=AllocateRequest(size_bytes=max(1, storage.nbytes), buffer=buffer))


def _failed(error: OpserveError, *, phase_one: int) -> Refused | Broken:
    """Returns the rejection by phase one or the failure of the kernel; raises other errors.

    A transient error or an exceeded quota is no rejection: the same call may succeed later.

    Args:
        error: Error of the batch.
        phase_one: Position of phase one in the batch.
    """
    depends_on_time = is_transient(error) or isinstance(error, QuotaExceeded)
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
