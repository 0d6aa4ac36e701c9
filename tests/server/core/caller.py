"""A caller of the core: one session on a device that ends calls on a command of the test."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from opserve_kernels.operators.im2col_backward.schema import Im2colBackward
from opserve_kernels.tensor import DataType, Tensor
from opserve_server.core import results
from opserve_server.core.errors import OpserveError
from opserve_server.core.principal import LOCAL
from opserve_server.core.service import Service
from opserve_server.pool.device import KernelFailed, WorkerDied
from server.core import every_command as c
from server.core.fakes import KIB, FakeDevice, make_service

SIZE = 4 * KIB


class Caller:
    """A session on a device that ends calls on a command of the test."""

    def __init__(self) -> None:
        self.device = FakeDevice(auto=False)
        self.service: Service = make_service(self.device)
        self.name = self.token = ""

    async def open(self) -> None:
        opened = await self.service.open_session(LOCAL)
        self.name, self.token = opened.session, opened.local_lane_token

    async def run(self, command: c.Command) -> Any:
        return await self.service.run(LOCAL, self.name, command)

    async def refused(self, command: c.Command) -> OpserveError:
        with pytest.raises(OpserveError) as refusal:
            await self.run(command)
        assert refusal.value.message
        return refusal.value

    async def buffer(self, size: int = SIZE) -> int:
        handle: int = (await self.run(c.Allocate(size_bytes=size))).buffer
        return handle

    async def plan(self, **changes: Any) -> results.Planned:
        """Columns (9, 4) of float16, which need a workspace, summed into an image (1, 4, 4)."""
        arguments = Im2colBackward(
            grad_output=Tensor(
                shape=(9, 4), dtype=DataType.FLOAT16, strides=(1, 9), buffer=await self.buffer()
            ),
            input_size=(4, 4),
            kernel_size=(3, 3),
            dilation=(1, 1),
            padding=(0, 0),
            stride=(1, 1),
            out=Tensor(shape=(1, 4, 4), dtype=DataType.FLOAT, buffer=await self.buffer()),
        )
        command = c.GetWorkspaceSize(
            operator="im2col_backward", arguments=replace(arguments, **changes)
        )
        planned: results.Planned = await self.run(command)
        assert planned.workspace_size > 0
        return planned

    async def execute(self, planned: results.Planned, *, stream: int = 0) -> int:
        """Executes on a workspace of the planned size; its handle."""
        workspace = await self.buffer(planned.workspace_size)
        await self.run(c.Execute(executor=planned.executor, workspace=workspace, stream=stream))
        await asyncio.sleep(0)
        return workspace

    async def repeatable(self) -> c.Execute:
        """A call that may run any number of times."""
        planned = await self.plan()
        await self.run(c.SetRepeatable(executor=planned.executor))
        workspace = await self.buffer(planned.workspace_size)
        return c.Execute(executor=planned.executor, workspace=workspace)

    async def streams(self, count: int) -> list[int]:
        return [(await self.run(c.CreateStream())).stream for _ in range(count)]

    async def submit(self, *commands: c.Command) -> None:
        await self.service.submit(LOCAL, self.name, commands)
        await asyncio.sleep(1)

    async def finish(self, failure: KernelFailed | WorkerDied | None = None) -> int:
        """Ends the call that the device has had longest; the stream of it."""
        held = self.device.held[0]
        self.device.finish(held, failure)
        await asyncio.sleep(1)
        return held.stream


def on(execute: c.Execute, stream: int, timeout_ms: int | None = None) -> c.Execute:
    """The same call on a stream, with a deadline."""
    return replace(execute, stream=stream, timeout_ms=timeout_ms)
