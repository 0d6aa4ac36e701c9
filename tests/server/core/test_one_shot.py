"""Whole calls: their outputs are read from the memory of a session, and held by nothing else."""

import asyncio
import weakref
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from opserve_kernels.registry import OPERATORS
from opserve_server.core.errors import HandleNotFound, QuotaExceeded
from opserve_server.core.one_shot import OneShotCall, TensorChoice, computed
from opserve_server.core.principal import LOCAL
from opserve_server.core.service import Service
from opserve_server.core.session_request import ANY_DEVICE
from opserve_server.core.tenants import Quota, Resource, Tenant
from server.core.fakes import LIMITS, FakeDevice, make_service

EDGE = 128
ARRAY_BYTES = OUTPUT_BYTES = EDGE * EDGE * 4


@pytest.fixture
def device() -> FakeDevice:
    return FakeDevice()


@pytest.fixture
async def service(device: FakeDevice) -> AsyncIterator[Service]:
    service = make_service(device)
    yield service
    await service.stop()
    assert device.slabs.free_bytes == device.memory_bytes
    device.slabs.close()


def call() -> OneShotCall:
    """Sums 1x1 blocks: an image of its columns."""
    one = {"kernel_size": (1, 1), "dilation": (1, 1), "padding": (0, 0), "stride": (1, 1)}
    choice = TensorChoice(array="columns")
    return OneShotCall(
        session=ANY_DEVICE,
        operator=OPERATORS["im2col_backward"],
        arguments={"grad_output": choice, "input_size": (EDGE, EDGE), **one},
        arrays={"columns": np.ones((1, EDGE * EDGE), np.float32)},
        output_bytes_limit=OUTPUT_BYTES,
    )


async def test_outputs_are_charged_until_they_are_read(service: Service) -> None:
    account = service.accounts.of(LOCAL.tenant)
    with account.in_flight(ARRAY_BYTES) as moving:
        async with computed(service, LOCAL, call(), moving) as answer:
            (output,) = answer.outputs
            assert account.use(Resource.BYTES_IN_FLIGHT) == OUTPUT_BYTES
            assert await anext(output.chunks)
            assert account.use(Resource.BYTES_IN_FLIGHT) == OUTPUT_BYTES
        assert account.use(Resource.SESSIONS) == 0
    assert account.use(Resource.BYTES_IN_FLIGHT) == 0


async def test_outputs_of_a_small_call_are_charged_until_they_are_read(
    service: Service, device: FakeDevice
) -> None:
    account = service.accounts.of(LOCAL.tenant)
    small = replace(
        call(),
        arguments={**call().arguments, "input_size": (8, 8)},
        arrays={"columns": np.ones((1, 64), np.float32)},
    )
    with account.in_flight(256) as moving:
        async with computed(service, LOCAL, small, moving) as answer:
            assert account.use(Resource.SESSIONS) == 0
            assert account.use(Resource.BYTES_IN_FLIGHT) == 256
            (output,) = answer.outputs
            assert len(b"".join([chunk async for chunk in output.chunks])) == 256
    assert account.use(Resource.BYTES_IN_FLIGHT) == 0
    account.renew(Tenant(name=LOCAL.tenant, quota=Quota(bytes_in_flight=511)))
    with account.in_flight(256) as moving, pytest.raises(QuotaExceeded):
        async with computed(service, LOCAL, small, moving):
            pytest.fail("it was computed")
    assert len(device.calls) == 1


async def test_outputs_that_a_quota_does_not_allow_are_refused_before_they_are_computed(
    service: Service, device: FakeDevice
) -> None:
    account = service.accounts.of(LOCAL.tenant)
    quota = Quota(bytes_in_flight=ARRAY_BYTES + OUTPUT_BYTES - 1)
    account.renew(Tenant(name=LOCAL.tenant, quota=quota))
    with account.in_flight(ARRAY_BYTES) as moving, pytest.raises(QuotaExceeded):
        async with computed(service, LOCAL, call(), moving):
            pytest.fail("it was computed")
    assert not device.calls


async def test_while_outputs_are_read_nothing_keeps_the_arrays(service: Service) -> None:
    asked = call()
    array: weakref.ref[Any] = weakref.ref(asked.arrays["columns"])
    moving = service.accounts.of(LOCAL.tenant).reserve(Resource.BYTES_IN_FLIGHT)
    entering = computed(service, LOCAL, asked, moving)
    del asked
    async with entering as answer:
        assert array() is None
        assert len(answer.outputs) == 1
    moving.update(0)


async def test_unread_outputs_end_with_the_lease(service: Service, device: FakeDevice) -> None:
    account = service.accounts.of(LOCAL.tenant)
    with account.in_flight(ARRAY_BYTES) as moving:
        async with computed(service, LOCAL, call(), moving) as answer:
            (output,) = answer.outputs
            for _ in range(2):
                assert await anext(output.chunks)
                await asyncio.sleep(LIMITS.lease_default_s - 1)
            await asyncio.sleep(2)
            assert device.slabs.free_bytes == device.memory_bytes
            with pytest.raises(HandleNotFound):
                await anext(output.chunks)
