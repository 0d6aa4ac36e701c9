"""One-shot calls of several tenants, over a real core: what is charged, and which one waits."""

import asyncio
import errno
import io
import json
import os
import tempfile
import threading
from collections.abc import AsyncIterator, Callable
from dataclasses import replace

import numpy as np
import pytest

from opserve_server import npz
from opserve_server.administration import Administration
from opserve_server.core.service import Service
from opserve_server.core.tenants import Quota, Resource
from opserve_server.inference.infer import Inference
from opserve_server.npz import JOINED_BYTES
from opserve_server.rest_api.app import RestApi, rest_app
from opserve_server.rest_api.one_shot import RunLimits
from server.conformance_service import idle_conformance
from server.core.fakes import LIMITS, FakeDevice, make_service
from server.entry_points import headers
from server.guards import TENANTS, ServiceWithKeys, service_with_keys
from server.rest_api.posts import Post

PATH = "/v1/operators/aclnnIm2colBackward:run"
EDGE = 96
OUTPUT_BYTES = EDGE * EDGE * 4
RUNS = 2
WAITING = 16


@pytest.fixture
def device() -> FakeDevice:
    return FakeDevice()


@pytest.fixture
async def core(device: FakeDevice) -> AsyncIterator[Service]:
    limits = replace(LIMITS, sessions_limit=64, device_sessions_limit=64)
    made = make_service(device, replace(limits, uploads_bytes_limit=2**20))
    yield made
    device.auto = True
    for held in list(device.held):
        device.end(held)
    await made.stop()
    assert device.slabs.free_bytes == device.memory_bytes
    device.slabs.close()


@pytest.fixture
def with_keys(core: Service) -> ServiceWithKeys:
    return service_with_keys(accounts=core.accounts)


@pytest.fixture
def app(core: Service, with_keys: ServiceWithKeys) -> RestApi:
    limits = RunLimits(
        args_bytes=4096, run_bytes=2**19, arrays=3, concurrent_runs=RUNS, waiting_runs=WAITING
    )
    return rest_app(
        core,
        with_keys.guard,
        Administration(core, None),
        idle_conformance(core),
        inference=Inference(core, output_bytes_limit=4096),
        accepts=lambda: True,
        metrics_page=bytes,
        body_bytes_limit=4096,
        run_limits=limits,
    )


def files(edge: int = EDGE) -> dict[str, bytes]:
    """A call that sums 1x1 blocks: an image of its columns; its body is packed."""
    columns = io.BytesIO()
    np.savez_compressed(columns, columns=np.ones((1, edge * edge), np.float32))
    one = {"kernel_size": [1, 1], "dilation": [1, 1], "padding": [0, 0], "stride": [1, 1]}
    arguments = {"grad_output": {"array": "columns"}, "input_size": [edge, edge], **one}
    return {"args": json.dumps({"arguments": arguments}).encode(), "tensors": columns.getvalue()}


async def until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110  # tasks of the loop change it
        await asyncio.sleep(0)


async def test_an_answer_that_is_not_read_stays_charged_and_the_next_one_is_refused(
    core: Service, app: RestApi, with_keys: ServiceWithKeys
) -> None:
    account = core.accounts.of("lab")
    quota = Quota(bytes_in_flight=4 * OUTPUT_BYTES)
    account.renew(replace(TENANTS["lab"], quota=quota))
    unread = [Post(app, PATH, files(), headers(with_keys.lab)) for _ in range(4)]
    for post in unread:
        await post.began()
    answered = [post for post in unread if post.status == 200]
    assert 1 <= len(answered) <= 3, "the arrays of a call count beside its outputs"
    assert account.use(Resource.BYTES_IN_FLIGHT) == len(answered) * OUTPUT_BYTES
    refused = next(post for post in unread if post.status != 200)
    assert (refused.status, refused.problem()["parameter"]) == (429, "bytes_in_flight")
    for post in answered:
        with np.load(io.BytesIO(await post.read())) as arrays:
            assert arrays["out"].shape == (1, EDGE, EDGE)
    assert account.use(Resource.BYTES_IN_FLIGHT) == 0
    assert account.use(Resource.SESSIONS) == 0


async def test_no_piece_of_an_answer_is_larger_than_a_chunk(
    app: RestApi, with_keys: ServiceWithKeys
) -> None:
    post = Post(app, PATH, files(), headers(with_keys.lab))
    assert len(await post.read()) > OUTPUT_BYTES
    assert max(map(len, post.pieces)) < LIMITS.chunk_bytes + JOINED_BYTES


async def test_a_client_that_leaves_an_answer_unread_releases_everything(
    core: Service, app: RestApi, with_keys: ServiceWithKeys, device: FakeDevice
) -> None:
    post = Post(app, PATH, files(), headers(with_keys.lab))
    await post.began()
    assert device.slabs.free_bytes < device.memory_bytes
    await post.leave()
    account = core.accounts.of("lab")
    assert account.use(Resource.BYTES_IN_FLIGHT) == account.use(Resource.SESSIONS) == 0
    assert device.slabs.free_bytes == device.memory_bytes


async def test_arrays_are_charged_before_they_are_unpacked(
    core: Service, app: RestApi, with_keys: ServiceWithKeys, monkeypatch: pytest.MonkeyPatch
) -> None:
    account = core.accounts.of("lab")
    sent = files()
    account.renew(replace(TENANTS["lab"], quota=Quota(bytes_in_flight=OUTPUT_BYTES // 2)))
    assert sum(map(len, sent.values())) < OUTPUT_BYTES // 4

    def unpack(*_: object, **__: object) -> None:
        pytest.fail("too late")

    monkeypatch.setattr("opserve_server.npz._read_members", unpack)
    post = Post(app, PATH, sent, headers(with_keys.lab))
    await post.read()
    assert (post.status, post.problem()["parameter"]) == (429, "bytes_in_flight")


async def test_a_call_runs_at_once_beside_many_of_another_tenant(
    core: Service, app: RestApi, with_keys: ServiceWithKeys, device: FakeDevice
) -> None:
    device.auto = False
    lab = [Post(app, PATH, files(4), headers(with_keys.lab)) for _ in range(8)]
    await until(lambda: bool(device.held))
    for _ in range(100):
        await asyncio.sleep(0)
    mill = Post(app, PATH, files(8), headers(with_keys.mill))
    (first,) = device.held
    await until(lambda: len(device.held) == 2)
    (second,) = (held for held in device.held if held is not first)
    device.finish(second)
    await mill.read()
    assert mill.status == 200
    assert device.held == [first], "none of the other tenant had to end for it"
    device.auto = True
    device.finish(first)
    for post in lab:
        await post.read()
    assert [post.status for post in lab] == [200] * len(lab)
    assert core.accounts.of("lab").use(Resource.BYTES_IN_FLIGHT) == 0


async def test_calls_of_a_tenant_that_wait_are_bounded(
    app: RestApi, with_keys: ServiceWithKeys, device: FakeDevice
) -> None:
    device.auto = False
    lab = [Post(app, PATH, files(4), headers(with_keys.lab)) for _ in range(WAITING + 4)]
    await until(lambda: sum(post.ended.done() for post in lab) == 3)
    refused = [post for post in lab if post.ended.done()]
    assert [post.status for post in refused] == [429] * 3
    assert {post.problem()["parameter"] for post in refused} == {"one-shot calls"}
    await until(lambda: bool(device.held))
    device.auto = True
    device.finish(device.held[0])
    for post in lab:
        await post.read()


async def test_a_waiting_call_whose_client_disconnects_ends(
    core: Service, app: RestApi, with_keys: ServiceWithKeys, device: FakeDevice
) -> None:
    device.auto = False
    first, second = (Post(app, PATH, files(4), headers(with_keys.lab)) for _ in range(2))
    await until(lambda: bool(device.held))
    await second.leave()
    assert second.status is None
    device.finish(device.held[0])
    await first.read()
    assert first.status == 200
    assert core.accounts.of("lab").use(Resource.BYTES_IN_FLIGHT) == 0


@pytest.mark.parametrize("blocking", ["unpacked_bytes", "load_arrays"])
async def test_a_call_whose_client_leaves_keeps_its_charge_and_slot_until_its_thread_ends(
    core: Service,
    app: RestApi,
    with_keys: ServiceWithKeys,
    monkeypatch: pytest.MonkeyPatch,
    blocking: str,
) -> None:
    begun, unpack = asyncio.Event(), threading.Event()
    loop, original = asyncio.get_running_loop(), getattr(npz, blocking)

    def held_up(*args: object, **options: object) -> object:
        loop.call_soon_threadsafe(begun.set)
        unpack.wait()
        return original(*args, **options)

    account, slots = core.accounts.of("lab"), app.state.backend.run_slots
    monkeypatch.setattr(npz, blocking, held_up)
    monkeypatch.setattr(npz, "_SMALL_BYTES", 0)  # which needs no thread
    post = Post(app, PATH, files(), headers(with_keys.lab))
    try:
        await begun.wait()
        charged = account.use(Resource.BYTES_IN_FLIGHT)
        leaving = asyncio.ensure_future(post.leave())
        for _ in range(100):
            await asyncio.sleep(0)
        assert account.use(Resource.BYTES_IN_FLIGHT) == charged > 0
        assert slots._free == RUNS - 1
    finally:
        unpack.set()
    await leaving
    assert account.use(Resource.BYTES_IN_FLIGHT) == 0
    assert slots._free == RUNS


async def test_uploads_of_one_tenant_leave_room_for_another(
    core: Service, app: RestApi, with_keys: ServiceWithKeys
) -> None:
    core.uploads._limit_bytes = 40_000
    large = {"args": b"{}", "tensors": bytes(30_000)}
    post = Post(app, PATH, large, headers(with_keys.lab))
    await post.read()
    assert (post.status, post.problem()["parameter"]) == (429, "body")
    with core.uploads.upload(core.accounts.of("lab")) as upload:
        upload.grow(19_000)
        post = Post(app, PATH, files(4), headers(with_keys.mill))
        await post.read()
    assert post.status == 200
    assert core.uploads._held.total() == 0


async def test_a_disk_without_room_for_a_body_is_the_services_fault(
    core: Service, app: RestApi, with_keys: ServiceWithKeys, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(tempfile.SpooledTemporaryFile, "write", full)
    post = Post(app, PATH, files(), headers(with_keys.lab))
    await post.read()
    assert post.status == 507, post.problem()
    assert post.problem()["code"] == 207001
    assert "send it again later" in post.problem()["detail"]
    assert core.accounts.of("lab").use(Resource.BYTES_IN_FLIGHT) == core.uploads._held.total() == 0
