"""Calls that each keep a device busy for some milliseconds."""

from opserve.v1.command_service_pb2 import Command
from opserve.v1.operator_service_pb2 import ExecuteRequest
from opserve_client import AsyncSession, Im2colBackward

EDGE, CHANNELS = 256, 64
"""Sizes of an image whose columns a device folds in some milliseconds."""


async def long_call(session: AsyncSession) -> int:
    """Plans a call that sums 1x1 blocks; returns its executor, which is repeatable."""
    call = Im2colBackward(
        grad_output=await session.empty((CHANNELS, EDGE * EDGE), "float32", format="ND"),
        input_size=[EDGE, EDGE],
        kernel_size=[1, 1],
        dilation=[1, 1],
        padding=[0, 0],
        stride=[1, 1],
        out=await session.empty((CHANNELS, EDGE, EDGE), "float32", format="ND"),
    )
    executor = (await session.get_workspace_size(call)).executor
    await executor.set_repeatable()
    return executor.handle


async def queue_calls(session: AsyncSession, executor: int, *, stream: int, count: int) -> None:
    """Queues a call `count` times in one round trip."""
    execute = ExecuteRequest(executor=executor, stream=stream)
    await session.submit([Command(execute=execute)] * count)
