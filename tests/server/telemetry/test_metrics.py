"""The counters of the metrics page, which no client can make grow."""

import random

import grpc
import pytest
from prometheus_client.parser import text_string_to_metric_families
from typing_extensions import override

from opserve.v1.memory_service_pb2 import FreeRequest
from opserve.v1.memory_service_pb2_grpc import MemoryServiceStub
from opserve_kernels.status import Status
from opserve_server.core.copies import CopyEntry, CopyKind
from opserve_server.core.errors import InvalidArgument
from opserve_server.core.observations import CALL, Call, CopyEnded, WorkEnded
from opserve_server.telemetry.metrics import Metrics
from server.recording import DEVICE, ENTRIES, SESSION, RecordingService
from server.telemetry.conftest import Apis


def samples(page: bytes) -> dict[tuple[str, ...], float]:
    """Every sample by its name and the values of its labels, in the order of their names."""
    return {
        (sample.name, *(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(page.decode())
        for sample in family.samples
    }


async def test_calls_are_counted_by_api_method_and_outcome(apis: Apis) -> None:
    free = MemoryServiceStub(apis.grpc).Free
    await free(FreeRequest(session=SESSION, buffer=1))
    await apis.rest.delete(f"/v1/sessions/{SESSION}/buffers/1")
    status = Status.ACL_ERROR_RT_PARAM_INVALID
    apis.service.error = InvalidArgument(status, "x", parameter="x", given="x", allowed="y")
    with pytest.raises(grpc.aio.AioRpcError):
        await free(FreeRequest(session=SESSION, buffer=1))
    await apis.rest.delete(f"/v1/sessions/{SESSION}/buffers/1")
    apis.service.error = None
    await apis.all_ended(calls=4)
    response = await apis.rest.get("/metrics")
    assert response.headers["content-type"].startswith("text/plain; version=")
    found = samples(response.content)
    calls = {name[1:]: value for name, value in found.items() if name[0] == "opserve_calls_total"}
    assert calls == {
        ("grpc", "Free", "OK"): 1,
        ("grpc", "Free", "INVALID_ARGUMENT"): 1,
        ("rest", "Free", "204"): 1,
        ("rest", "Free", "400"): 1,
    }
    assert found["opserve_call_seconds_count", "grpc", "Free"] == 2
    assert 0 < found["opserve_call_seconds_sum", "rest", "Free"] < 60


async def test_texts_of_clients_are_in_no_label(apis: Apis) -> None:
    chance = random.Random(1)  # noqa: S311

    async def strange_calls() -> list[str]:
        words = [f"{chance.getrandbits(64):016x}" for _ in range(6)]
        path, session, operator, method, request_id, agent = words
        headers = {"X-Request-Id": request_id, "User-Agent": agent}
        await apis.rest.request(method.upper(), f"/{path}", headers=headers)
        await apis.rest.get(f"/v1/sessions/{session}/streams/1", headers=headers)
        await apis.rest.get(f"/v1/operators/{operator}", headers=headers)
        await apis.rest.post(f"/v1/operators/{operator}:run", headers=headers)
        await MemoryServiceStub(apis.grpc).Free(FreeRequest(session=session))
        return words

    words = await strange_calls()
    first = samples(apis.metrics.page())
    for _ in range(20):
        words += await strange_calls()
    page = apis.metrics.page()
    assert samples(page).keys() == first.keys()
    assert not [word for word in words if word in page.decode().lower()]


def test_kernels_distinguish_queueing_and_computing() -> None:
    metrics = Metrics()
    for entry in ENTRIES:
        metrics.observe(WorkEnded("ascend910b-0", "ascend910b", entry))
    found = samples(metrics.page())
    kernel = ("im2col_backward", "ascend910b")
    assert found["opserve_kernels_total", "im2col_backward", "DONE", "ascend910b"] == 1
    assert found["opserve_queue_seconds_sum", *kernel] == 0.5
    assert found["opserve_kernel_seconds_sum", *kernel] == 0.125, "pauses are left out"
    assert found["opserve_kernel_seconds_count", *kernel] == 1
    assert not [name for name in found if "" in name[1:]], "events are no kernels"


@pytest.mark.parametrize(
    ("kind", "inline", "lane"),
    [
        (CopyKind.WRITE, True, ("in", "inline")),
        (CopyKind.WRITE, False, ("in", "grpc")),
        (CopyKind.READ, False, ("out", "grpc")),
        (CopyKind.FILL, True, None),
    ],
)
def test_bytes_are_counted_by_direction_and_transport(
    kind: CopyKind, *, inline: bool, lane: tuple[str, str] | None
) -> None:
    metrics = Metrics()
    entry = CopyEntry(kind=kind, buffer=1, size_bytes=64, started_s=1.0, ended_s=1.5)
    token = CALL.set(Call(api="grpc", method="Write", request_id="r", headers={}))
    metrics.observe(CopyEnded("ascend910b-0", "ascend910b", entry, inline=inline))
    CALL.reset(token)
    found = samples(metrics.page())
    assert found["opserve_copy_seconds_sum", kind.value, "ascend910b"] == 0.5
    copied = {name[1:]: v for name, v in found.items() if name[0] == "opserve_copied_bytes_total"}
    assert copied == ({} if lane is None else {lane: 64})


def test_the_state_of_devices_is_as_it_is_now() -> None:
    class Device:
        name = DEVICE.name
        restarts = 2

    class Service(RecordingService):
        @override
        def waiting_entries(self) -> dict[str, int]:
            return {DEVICE.name: 7}

        @override
        def busy_seconds(self) -> dict[str, float]:
            return {DEVICE.name: 2.5}

        @override
        def waits_s(self) -> dict[str, list[float]]:
            return {DEVICE.profile: [3.0, 8.0, 1.0], "ascend910": []}

        @property
        @override
        def open_watches(self) -> int:
            return 4

    metrics = Metrics()
    metrics.watch(Service(), [Device()])
    found = samples(metrics.page())
    states = {name: value for name, value in found.items() if name[-1] == DEVICE.name}
    assert {name[0]: value for name, value in states.items()} == {
        "opserve_sessions": 3,
        "opserve_device_ready": 1,
        "opserve_memory_free_bytes": 2**29,
        "opserve_memory_used_bytes": 2**29,
        "opserve_stream_entries_waiting": 7,
        "opserve_worker_restarts_total": 2,
        "opserve_device_busy_seconds_total": 2.5,
    }
    assert found["opserve_waiting_requests", DEVICE.profile] == 3
    assert found["opserve_longest_wait_seconds", DEVICE.profile] == 8.0
    assert found["opserve_longest_wait_seconds", "ascend910"] == 0.0
    assert found["opserve_watches",] == 4


def test_two_services_in_a_process_share_no_metric() -> None:
    first, second = Metrics(), Metrics()
    first.observe(WorkEnded("ascend910b-0", "ascend910b", ENTRIES[0]))
    assert samples(first.page())
    assert not samples(second.page())
