"""Commands of a tenant whose quota is used."""

import asyncio
from collections.abc import AsyncIterator, Sequence

import numpy as np
import pytest

from opserve_kernels.registry import OPERATORS
from opserve_server.core import results
from opserve_server.core.errors import QuotaExceeded
from opserve_server.core.one_shot import OneShotCall, TensorChoice, computed
from opserve_server.core.principal import Principal, Scope
from opserve_server.core.service import Service
from opserve_server.core.session_request import ANY_DEVICE
from opserve_server.core.tenants import Quota, Resource, Tenant
from server.core import every_command as c
from server.core.fakes import KIB, FakeDevice, make_service

OURS = Principal(tenant="ours", name="test", scopes=frozenset({Scope.OPERATE}))
COLUMNS = np.ones((1, 9, 4), "<f2")
IMAGE_BYTES = 16 * 2
IM2COL = OneShotCall(
    session=ANY_DEVICE,
    operator=OPERATORS["im2col_backward"],
    arguments={
        "grad_output": TensorChoice(array="columns"),
        "input_size": (4, 4),
        "kernel_size": (3, 3),
        "dilation": (1, 1),
        "padding": (0, 0),
        "stride": (1, 1),
    },
    arrays={"columns": COLUMNS},
    output_bytes_limit=KIB,
)


@pytest.fixture
async def service() -> AsyncIterator[Service]:
    device = FakeDevice()
    service = make_service(device)
    limit(service)
    yield service
    await service.stop()
    device.slabs.close()


def limit(service: Service, **quota: float) -> None:
    service.renew_tenants([Tenant(name="ours", quota=Quota(**quota))])  # type: ignore[arg-type]  # each by its name


def use(service: Service, resource: Resource) -> float:
    return service.accounts.of("ours").use(resource)


async def run_once(service: Service) -> None:
    with service.accounts.of("ours").in_flight(COLUMNS.nbytes) as moving:
        async with computed(service, OURS, IM2COL, moving) as answer:
            for output in answer.outputs:
                assert b"".join([chunk async for chunk in output.chunks])


async def opened(service: Service) -> str:
    return (await service.open_session(OURS)).session


async def submit(service: Service, session: str, *commands: c.Command) -> Sequence[results.Result]:
    return await service.submit(OURS, session, commands)


async def test_a_batch_ends_where_it_breaks_a_quota(service: Service) -> None:
    session = await opened(service)
    limit(service, buffers=2)
    made = await submit(service, session, *[c.Allocate(size_bytes=1)] * 4)
    assert made[:2] == [results.Allocated(buffer=n, size_bytes=1) for n in (1, 2)]
    assert len(made) == 3
    assert isinstance(made[2], results.Failed)
    assert isinstance(made[2].error, QuotaExceeded)
    assert use(service, Resource.BUFFERS) == 2


async def test_sessions_of_others_do_not_count(service: Service) -> None:
    limit(service, sessions=1)
    await opened(service)
    with pytest.raises(QuotaExceeded, match=r"Session quota of tenant .* used up \(1 of 1\)"):
        await opened(service)
    theirs = Principal(tenant="theirs", name="test", scopes=frozenset({Scope.OPERATE}))
    tenants = [Tenant(name="ours", quota=Quota(sessions=1)), Tenant(name="theirs")]
    service.renew_tenants(tenants)
    await service.open_session(theirs)


async def test_a_slab_is_no_larger_than_the_quota_leaves(service: Service) -> None:
    limit(service, device_memory_bytes=20 * KIB)
    session = await opened(service)
    await submit(service, session, c.Allocate(size_bytes=10 * KIB))
    assert 10 * KIB <= use(service, Resource.DEVICE_MEMORY) <= 20 * KIB


async def test_slabs_that_a_tenant_does_not_use_make_room_before_it_is_refused(
    service: Service,
) -> None:
    limit(service, device_memory_bytes=200 * KIB)
    one, other = await opened(service), await opened(service)
    await submit(service, one, c.Allocate(size_bytes=150 * KIB), c.Free(buffer=1))
    assert use(service, Resource.DEVICE_MEMORY) == 152 * KIB
    await submit(service, other, c.Allocate(size_bytes=180 * KIB))
    assert use(service, Resource.DEVICE_MEMORY) == 180 * KIB


async def test_no_call_begins_when_the_day_is_used(service: Service) -> None:
    service.accounts.of("ours").used_device("ascend910b", 3.0)
    limit(service, device_seconds_per_day=3.0)
    with pytest.raises(QuotaExceeded, match=r"Device time of tenant .* used up today"):
        await run_once(service)
    await asyncio.sleep(0)
    assert use(service, Resource.SESSIONS) == 0, "its session has ended all the same"


async def test_the_arrays_of_a_whole_call_are_charged_once(service: Service) -> None:
    size = COLUMNS.nbytes + IMAGE_BYTES
    limit(service, bytes_in_flight=size)
    await run_once(service)
    limit(service, bytes_in_flight=size - 1)
    with pytest.raises(QuotaExceeded, match=f"{IMAGE_BYTES} bytes beside {COLUMNS.nbytes} in use"):
        await run_once(service)
    assert use(service, Resource.BYTES_IN_FLIGHT) == 0


async def test_a_download_that_is_left_is_not_under_way(service: Service) -> None:
    session = await opened(service)
    await submit(service, session, c.Allocate(size_bytes=64 * KIB))
    limit(service, bytes_in_flight=64 * KIB)
    reading = service.read(OURS, session, buffer=1, offset=0, size_bytes=64 * KIB)
    await anext(reading)
    assert use(service, Resource.BYTES_IN_FLIGHT) == 64 * KIB
    with pytest.raises(QuotaExceeded):
        await anext(service.read(OURS, session, buffer=1, offset=0, size_bytes=1))
    await reading.aclose()
    assert use(service, Resource.BYTES_IN_FLIGHT) == 0


async def test_a_tenant_that_is_disabled_has_no_sessions(service: Service) -> None:
    await opened(service)
    account = service.accounts.of("ours")
    service.renew_tenants([Tenant(name="ours", disabled=True)])
    await asyncio.sleep(1)
    assert account.use(Resource.SESSIONS) == account.use(Resource.STREAMS) == 0
