"""Commands on executors: the two phases of aclnn, and calls that run more than once."""

from typing import assert_never

from opserve_kernels import operator
from opserve_kernels.errors import null_argument
from opserve_kernels.registry import OPERATORS
from opserve_kernels.status import Status
from opserve_server.core.commands import (
    DestroyExecutor,
    Execute,
    GetWorkspaceSize,
    SetRepeatable,
    SetTensorBuffer,
)
from opserve_server.core.errors import InvalidArgument, WrongState
from opserve_server.core.executors import kernel_call, plan_executor
from opserve_server.core.observations import concerns_operator
from opserve_server.core.results import Done, Planned, RuleWarning
from opserve_server.core.session import Session
from opserve_server.core.work import KernelRun

OperatorCommand = GetWorkspaceSize | Execute | SetRepeatable | SetTensorBuffer | DestroyExecutor


def run(session: Session, command: OperatorCommand) -> Planned | Done:
    """Carries out a command on executors."""
    match command:
        case GetWorkspaceSize():
            return _get_workspace_size(session, command)
        case Execute():
            _execute(session, command)
        case SetRepeatable():
            session.executors.get(command.executor).repeatable = True
        case SetTensorBuffer():
            executor = session.executors.get(command.executor)
            null = Status.ACLNN_ERR_INNER_NULLPTR
            buffer = session.buffers.get(command.buffer, null_status=null)
            executor.set_buffer(command.index, buffer)
        case DestroyExecutor():
            session.executors.remove(command.executor)
        case _:
            assert_never(command)
    return Done()


def _get_workspace_size(session: Session, command: GetWorkspaceSize) -> Planned:
    concerns_operator(command.operator)
    handle = session.executors.next_handle(command.executor)
    executor = plan_executor(
        handle,
        OPERATORS[command.operator],
        command.arguments,
        plans=session.plans,
        options=session.plan_options,
        buffer_of=session.buffers.get,
    )
    session.executors.put(handle, executor)
    plan = executor.plan
    return Planned(
        workspace_size=plan.workspace_size,
        executor=handle,
        warnings=tuple(map(_warning, plan.warnings)),
    )


def _warning(broken: operator.RuleWarning) -> RuleWarning:
    return RuleWarning(
        code=broken.status.value,
        name=broken.status.name,
        domain=broken.status.domain,
        parameter=broken.parameter,
        given=broken.given,
        allowed=broken.allowed,
        sentence=broken.sentence,
    )


def _execute(session: Session, command: Execute) -> None:
    if command.executor == 0:
        raise null_argument("executor")
    executor = session.executors.get(command.executor)
    concerns_operator(executor.operator.name)
    stream = session.streams.get(command.stream)
    timeout_s = _timeout_s(command.timeout_ms)
    _refuse_after_stop(session)
    session.account.check_device_time()
    if executor.plan.workspace_size and not command.workspace:
        session.executors.remove(command.executor)
        raise null_argument("workspace")
    call, buffers = kernel_call(executor, command, buffer_of=session.buffers.get)
    work = KernelRun(executor.handle, call, timeout_s)
    stream.submit(work)
    for buffer in buffers:
        buffer.used_by(work.done)
    if call.workspace is not None:
        session.memory.hide(call.workspace, work.done)
    if not executor.repeatable:
        session.executors.remove(command.executor)


def _timeout_s(timeout_ms: int | None) -> float | None:
    if timeout_ms is None:
        return None
    if timeout_ms < 1:
        raise InvalidArgument(
            Status.ACL_ERROR_RT_PARAM_INVALID,
            f"timeout_ms: given {timeout_ms}, allowed at least 1, or none for no deadline",
            parameter="timeout_ms",
            given=timeout_ms,
            allowed="at least 1",
        )
    return timeout_ms / 1000.0


def _refuse_after_stop(session: Session) -> None:
    if session.stopped_by is not None:
        handle = session.stopped_by.handle
        raise WrongState(
            Status.ACL_ERROR_RT_STREAM_ABORT,
            f"stream: given work after stream {handle}, in STOP mode, failed, allowed none until "
            "that stream is destroyed",
            parameter="stream",
            given=handle,
            allowed="work after the failed stream is destroyed",
        )
