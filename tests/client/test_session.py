"""Sessions: heartbeat, two phases, closing."""

import asyncio
import threading
from typing import Any

import numpy as np
import pytest
from google.protobuf.message import Message

from client.fake_service import FakeService, refusal, throttling
from client.samples import convolution
from opserve_client import (
    AclnnError,
    AclrtError,
    AsyncClient,
    Client,
    ConvolutionBackward,
    OpserveError,
    Session,
    Tensor,
)
from opserve_client.runtime_async import Heartbeat as AsyncHeartbeat
from opserve_client.transports import AsyncMemoryTransport, MemoryTransport
from opserve_client.wire.methods import Method
from simulation.virtual_time import VirtualTimeLoop


def on_device(session: Session) -> ConvolutionBackward:
    arrays = convolution()
    tensors: dict[str, Tensor] = {
        "grad_output": session.upload(np.asarray(arrays.grad_output)),
        "input": session.upload(np.asarray(arrays.input)),
        "weight": session.upload(np.asarray(arrays.weight)),
        "grad_input": session.empty((2, 3, 5, 5), "float32"),
        "grad_weight": session.empty((4, 3, 3, 3), "float32"),
        "grad_bias": session.empty((4,), "float32"),
    }
    return convolution(**tensors)


def test_the_two_phases(session: Session) -> None:
    call = on_device(session)
    plan = session.get_workspace_size(call)
    assert plan.workspace_size == 512
    workspace = session.allocate(plan.workspace_size)
    stream = session.create_stream()
    stream.execute(plan.executor, workspace)
    stream.synchronize()
    assert isinstance(call.grad_input, Tensor)
    np.testing.assert_array_equal(call.grad_input.download(), convolution().input)


def test_an_executor_runs_once(session: Session) -> None:
    plan = session.get_workspace_size(on_device(session))
    session.default_stream.execute(plan.executor)
    with pytest.raises(AclrtError, match="107017"):
        session.default_stream.execute(plan.executor)


@pytest.mark.parametrize("name", ["grad_input", 3])
def test_a_tensor_of_an_executor_is_named_or_counted(session: Session, name: str | int) -> None:
    plan = session.get_workspace_size(on_device(session))
    other = session.empty((2, 3, 5, 5), "float32")
    plan.executor.set_repeatable()
    plan.executor.set_tensor_buffer(name, other)
    session.default_stream.execute(plan.executor)
    np.testing.assert_array_equal(other.download(), convolution().input)


def test_an_absent_tensor_is_refused(session: Session) -> None:
    plan = session.get_workspace_size(on_device(session))
    with pytest.raises(
        AclnnError, match="tensor does not accept bias_sizes; it accepts grad_output"
    ):
        plan.executor.set_tensor_buffer("bias_sizes", session.allocate(8))


def test_closing_ends_the_session_and_its_heartbeat(fake: FakeService) -> None:
    with Client(transport=MemoryTransport(fake)) as client:
        before = threading.active_count()
        with client.open_session(lease_s=9):
            assert threading.active_count() == before + 1
        assert threading.active_count() == before
    assert fake.calls == ["OpenSession", "CloseSession"]


class Beats:
    """A service that opens with a very short lease and notifies of each keep-alive."""

    def __init__(self, fake: FakeService, *, enough: int) -> None:
        fake.lease_s = 0.003
        self._fake = fake
        self._enough = enough
        self.kept = threading.Event()

    def __call__(self, method: Method[Any, Any], request: Message) -> Message:
        kept = self._fake.calls.count("KeepAlive") + 1
        if method.rpc.endswith("KeepAlive") and kept >= self._enough:
            self.kept.set()
        return self._fake(method, request)


@pytest.mark.parametrize("error", [refusal(507901, "service", "away"), throttling(2.0)])
def test_the_heartbeat_keeps_the_lease_through_an_outage_and_a_used_call_rate(
    fake: FakeService, error: OpserveError
) -> None:
    fake.failures["KeepAlive"] = [error]
    beats = Beats(fake, enough=3)
    with Client(transport=MemoryTransport(beats)) as client, client.open_session():
        assert beats.kept.wait(30)


async def test_the_heartbeat_of_asyncio_keeps_the_lease(fake: FakeService) -> None:
    beats = Beats(fake, enough=3)
    async with (
        AsyncClient(transport=AsyncMemoryTransport(beats)) as client,
        client.open_session(),
    ):
        await asyncio.to_thread(beats.kept.wait, 30)
    assert fake.calls.count("KeepAlive") >= 3


def test_the_heartbeat_ends_with_the_session(fake: FakeService) -> None:
    fake.lease_s = 0.003
    fake.failures["KeepAlive"] = [refusal(107017, "session", "gone")]
    before = set(threading.enumerate())
    with Client(transport=MemoryTransport(fake)) as client, client.open_session():
        for thread in set(threading.enumerate()) - before:
            thread.join(30)
            assert not thread.is_alive()
    assert fake.calls.count("KeepAlive") == 1


async def test_the_asyncio_heartbeat_ends_on_request() -> None:
    beaten: list[int] = []
    last = asyncio.Event()

    async def beat() -> bool:
        beaten.append(1)
        if len(beaten) == 3:
            last.set()
        return len(beaten) < 3

    heartbeat = AsyncHeartbeat(beat, interval_s=0.0)
    await last.wait()
    for _ in range(10):
        await asyncio.sleep(0)
    assert len(beaten) == 3
    await heartbeat.stop()


def test_a_session_and_a_client_close_once(fake: FakeService) -> None:
    client = Client(transport=MemoryTransport(fake))
    session = client.open_session()
    for _ in range(2):
        session.close()
    for _ in range(2):
        client.close()
    assert fake.calls == ["OpenSession", "CloseSession"]


def test_a_session_that_has_ended_closes_without_an_error(
    client: Client, fake: FakeService
) -> None:
    fake.failures["CloseSession"] = [refusal(107017, "session", "gone")]
    with client.open_session():
        pass
    assert fake.calls[-1] == "CloseSession"


def test_a_failure_to_close_is_raised_and_can_be_retried(client: Client, fake: FakeService) -> None:
    fake.failures["CloseSession"] = [refusal(500000, "session", "odd")]
    session = client.open_session()
    with pytest.raises(AclrtError, match="500000"):
        session.close()
    session.close()
    assert fake.calls.count("CloseSession") == 2


def test_a_failure_to_close_does_not_hide_the_users_error(
    client: Client, fake: FakeService
) -> None:
    fake.failures["CloseSession"] = [refusal(500000, "session", "odd")]
    with pytest.raises(KeyError) as raised, client.open_session():
        raise KeyError("mine")
    (note,) = raised.value.__notes__
    assert "ends with its lease: 500000" in note


async def test_a_failure_to_close_does_not_hide_the_users_error_in_asyncio(
    fake: FakeService,
) -> None:
    fake.failures["CloseSession"] = [refusal(500000, "session", "odd")]
    async with AsyncClient(transport=AsyncMemoryTransport(fake)) as client:
        with pytest.raises(KeyError) as raised:
            async with client.open_session():
                raise KeyError("mine")
    assert "500000" in raised.value.__notes__[0]


def test_a_heartbeat_waits_its_interval_before_each_beat() -> None:
    async def beats() -> list[float]:
        clock = asyncio.get_running_loop().time
        beaten: list[float] = []

        async def beat() -> bool:
            beaten.append(clock())
            return True

        heartbeat = AsyncHeartbeat(beat, interval_s=10.0)
        await asyncio.sleep(25.0)
        await heartbeat.stop()
        return beaten

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        assert runner.run(beats()) == [10.0, 20.0]
