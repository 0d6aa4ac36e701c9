"""Over gRPC and Connect, blocking and async, work is aborted and late in the same way."""

from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest
import pytest_asyncio

from contract.apis import AnySession, every_session, settle
from opserve.v1.command_service_pb2 import Command
from opserve.v1.operator_service_pb2 import ExecuteRequest
from opserve_client import ConvolutionBackward, CubeMathType, ExecutionFailed
from opserve_client.private_service import Addresses

pytestmark = [pytest.mark.system, pytest.mark.asyncio(loop_scope="module")]
WAYS = [f"{api}, {kind}" for api in ("gRPC", "Connect") for kind in ("blocking", "async")]
LONG_CALLS = 30
"""Of some ten milliseconds each: queued at once, they are not over before an answer is back."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def sessions(service: Addresses) -> AsyncIterator[Mapping[str, AnySession]]:
    async with every_session(service, "ascend910b") as opened:
        yield opened


async def long_call(session: AnySession) -> tuple[Any, Any]:
    """A repeatable executor that runs for long, and its workspace."""
    image, kernel = (1, 64, 112, 112), (64, 64, 3, 3)
    tensors: dict[str, Any] = {
        name: await settle(session.empty(shape, "float32"))
        for name, shape in (("grad_output", image), ("input", image), ("weight", kernel))
    }
    call = ConvolutionBackward(
        **tensors,
        grad_weight=await settle(session.empty(kernel, "float32")),
        bias_sizes=[64],
        stride=[1, 1],
        padding=[1, 1],
        dilation=[1, 1],
        transposed=False,
        output_padding=[0, 0],
        groups=1,
        output_mask=[False, True, False],
        cube_math_type=CubeMathType.KEEP_DTYPE,
    )
    plan = await settle(session.get_workspace_size(call))
    await settle(plan.executor.set_repeatable())
    size = plan.workspace_size
    return plan.executor, await settle(session.allocate(size)) if size else None


@pytest.mark.parametrize("way", WAYS)
async def test_an_aborted_stream_reports_the_abort_and_can_be_used(
    sessions: Mapping[str, AnySession], way: str
) -> None:
    session = sessions[way]
    executor, workspace = await long_call(session)
    stream = await settle(session.create_stream())
    request = ExecuteRequest(
        executor=executor.handle,
        stream=stream.handle,
        workspace=0 if workspace is None else workspace.handle,
    )
    await settle(session.submit([Command(execute=request)] * LONG_CALLS))
    await settle(stream.abort())
    assert await settle(stream.query()), "an abort ends when nothing is left"
    with pytest.raises(ExecutionFailed, match="was aborted") as failure:
        await settle(stream.synchronize())
    assert (failure.value.code, failure.value.name) == (107023, "ACL_ERROR_RT_STREAM_ABORT")
    assert failure.value.executor == executor.handle
    await settle(stream.execute(executor, workspace))
    await settle(stream.synchronize())


@pytest.mark.parametrize("way", WAYS)
async def test_a_late_call_is_reported_with_its_deadline(
    sessions: Mapping[str, AnySession], way: str
) -> None:
    session = sessions[way]
    executor, workspace = await long_call(session)
    stream = await settle(session.create_stream())
    for _ in range(LONG_CALLS):
        await settle(stream.execute(executor, workspace, timeout_ms=1))
    with pytest.raises(ExecutionFailed, match="its deadline of 1 ms") as failure:
        await settle(stream.synchronize())
    assert (failure.value.code, failure.value.name) == (107020, "ACL_ERROR_RT_TASK_TIMEOUT")
    await settle(stream.execute(executor, workspace))
    await settle(stream.synchronize())
