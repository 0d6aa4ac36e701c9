"""The path of a request through the front is short: recorded live, over both APIs."""

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass

import grpc
import httpx2
import pytest
from pydantic import SecretStr

from opserve.v1.memory_service_pb2 import AllocateRequest
from opserve.v1.memory_service_pb2_grpc import MemoryServiceStub
from opserve.v1.operator_service_pb2 import (
    ExecuteRequest,
    GetWorkspaceSizeRequest,
    SetRepeatableRequest,
)
from opserve.v1.operator_service_pb2_grpc import OperatorServiceStub
from opserve.v1.session_service_pb2 import OpenSessionRequest
from opserve.v1.session_service_pb2_grpc import SessionServiceStub
from opserve.v1.tensor_pb2 import DATA_TYPE_FLOAT
from opserve_server import app
from opserve_server.pool.device import Device
from opserve_server.settings import Settings
from server.call_path import CallPath, recorded_path
from server.pool.toys import toy_device

CALL = "aclnnIm2colBackward"
SIZES = {
    "input_size": [3, 3],
    "kernel_size": [2, 2],
    "dilation": [1, 1],
    "padding": [0, 0],
    "stride": [1, 1],
}


@dataclass
class Front:
    """A session over both APIs, with tensors for a call."""

    channel: grpc.aio.Channel
    rest: httpx2.AsyncClient
    session: str
    buffers: Sequence[int]

    def tensor(self, shape: Sequence[int], buffer: int) -> dict[str, object]:
        return {"shape": shape, "dtype": "FLOAT", "buffer": buffer}

    async def plan_over_rest(self) -> int:
        columns, image = self.buffers
        arguments = {
            "grad_output": self.tensor([4, 4], columns),
            **SIZES,
            "out": self.tensor([1, 3, 3], image),
        }
        path = f"/v1/sessions/{self.session}/operators/{CALL}:getWorkspaceSize"
        answer = await self.rest.post(path, json={"arguments": arguments})
        assert answer.status_code == 200, answer.text
        executor: int = answer.json()["executor"]
        return executor

    async def plan_over_grpc(self) -> int:
        columns, image = self.buffers
        request = GetWorkspaceSizeRequest(session=self.session)
        call = request.im2col_backward
        for tensor, shape, buffer in (
            (call.grad_output, (4, 4), columns),
            (call.out, (1, 3, 3), image),
        ):
            tensor.shape.extend(shape)
            tensor.dtype = DATA_TYPE_FLOAT
            tensor.buffer = buffer
        for name, values in SIZES.items():
            getattr(call, name).values.extend(values)
        return (await OperatorServiceStub(self.channel).GetWorkspaceSize(request)).executor

    async def workspace_of(self, executor: int) -> int:
        request = AllocateRequest(session=self.session, workspace_of=executor)
        return (await MemoryServiceStub(self.channel).Allocate(request)).buffer

    async def set_repeatable(self, executor: int) -> None:
        request = SetRepeatableRequest(session=self.session, executor=executor)
        await OperatorServiceStub(self.channel).SetRepeatable(request)

    async def execute_over_rest(self, executor: int, workspace: int) -> None:
        path = f"/v1/sessions/{self.session}/executors/{executor}:execute"
        answer = await self.rest.post(path, json={"workspace": workspace})
        assert answer.status_code == 204, answer.text

    async def execute_over_grpc(self, executor: int, workspace: int) -> None:
        request = ExecuteRequest(session=self.session, executor=executor, workspace=workspace)
        await OperatorServiceStub(self.channel).Execute(request)


@pytest.fixture
async def front(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Front]:
    """A front in this process, whose worker has a kernel that computes nothing."""

    async def compile_nothing(_: object) -> None:
        pass

    def new_devices(_: Settings) -> list[Device]:
        return [device]

    device = toy_device({"im2col_backward": "server.pool.toy.nothing"})
    monkeypatch.setattr(app, "new_devices", new_devices)
    monkeypatch.setattr(app, "compile_missing", compile_nothing)
    settings = Settings(
        store_url=SecretStr(""),
        no_keys=True,
        grpc_address="127.0.0.1:0",
        rest_address="127.0.0.1:0",
        devices=["ascend910b"],
    )
    async with AsyncExitStack() as stack:
        addresses = await stack.enter_async_context(app.running(settings))
        channel = await stack.enter_async_context(grpc.aio.insecure_channel(addresses.grpc))
        rest = await stack.enter_async_context(httpx2.AsyncClient(base_url=addresses.rest))
        opened = await SessionServiceStub(channel).OpenSession(OpenSessionRequest())
        memory = MemoryServiceStub(channel)
        buffers = [
            (await memory.Allocate(AllocateRequest(session=opened.session, size_bytes=256))).buffer
            for _ in range(2)
        ]
        yield Front(channel, rest, opened.session, buffers)


def check(path: CallPath, *, files: int) -> None:
    assert len(path.files) <= files, "\n".join(path.files)


PLANNED, BEGUN = "core/executors.py:Plans.plan", "pool/device.py:Device.begin"


async def test_the_call_path_of_phase_one_is_short_over_grpc(front: Front) -> None:
    await front.plan_over_grpc()
    with recorded_path() as path:
        await front.plan_over_grpc()
    check(path, files=18)
    chain = path.chain("grpc_api/convert.py", PLANNED)
    assert len(chain) <= 6, chain


async def test_the_call_path_of_phase_one_is_short_over_rest(front: Front) -> None:
    await front.plan_over_rest()  # the first call of all makes tables
    with recorded_path() as path:
        await front.plan_over_rest()
    check(path, files=26)
    chain = path.chain("rest_api/routers/", PLANNED)
    assert len(chain) <= 6, chain


async def test_the_call_path_of_phase_two_is_short(front: Front) -> None:
    executor = await front.plan_over_rest()  # the first call over REST makes tables
    await front.set_repeatable(executor)
    workspace = await front.workspace_of(executor)
    for execute, entry, files in (
        (front.execute_over_grpc, "grpc_api/convert.py", 25),
        (front.execute_over_rest, "rest_api/routers/", 33),
    ):
        with recorded_path() as path:
            await execute(executor, workspace)
        check(path, files=files)
        chain = path.chain(entry, BEGUN)
        assert len(chain) <= 10, chain
