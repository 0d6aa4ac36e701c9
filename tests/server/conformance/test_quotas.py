"""Over both APIs quotas bound the calls of conformance; what they refuse holds nothing."""

from collections.abc import AsyncGenerator
from pathlib import Path

import numpy as np
import pytest

from opserve_client import QuotaExceeded
from opserve_kernels.cases.case import canonical
from opserve_kernels.operators.im2col_backward.cases.calls import FoldCall
from opserve_server.core.tenants import Resource
from server.deployment import APIS, Deployment, open_deployment, refusal
from server.store.migrated import migrated_file
from system.drills import until

OUTPUTS = {"out": np.ones(8, np.float32)}


@pytest.fixture
async def deployment(tmp_path: Path) -> AsyncGenerator[Deployment]:
    async with open_deployment(migrated_file(tmp_path)) as deployment:
        yield deployment


async def key_with(deployment: Deployment, **quota: float) -> str:
    async with deployment.client("grpc") as admin:
        await admin.admin.create_tenant("lab", quota=quota)
        return (await admin.admin.create_key("lab", "ci")).text


async def all_given_back(deployment: Deployment) -> None:
    """Waits for the end of the call, a moment after its client has the answer."""

    async def is_given_back() -> bool:
        return not deployment.service.accounts.of("lab").use(Resource.BYTES_IN_FLIGHT)

    await until(is_given_back)


@pytest.mark.parametrize("api", APIS)
async def test_outputs_beyond_the_bytes_under_way_are_refused(
    deployment: Deployment, api: str
) -> None:
    key = await key_with(deployment, bytes_in_flight=100)
    async with deployment.client(api, key) as lab:
        raised = await refusal(lab.conformance.verify("any", OUTPUTS))
    assert isinstance(raised, QuotaExceeded)
    assert (raised.parameter, raised.limit) == ("bytes_in_flight", 100)
    await all_given_back(deployment)


@pytest.mark.parametrize("api", APIS)
async def test_operands_that_wait_for_the_reference_device_are_bytes_under_way(
    deployment: Deployment, api: str
) -> None:
    """Expected values are computed of operands in float64, and then magnitudes of as many."""
    case = FoldCall(out=(2, 2, 16, 16), kernel=(2, 2)).case()
    each = sum(tensor.storage_elements for tensor in case.tensors.values()) * 8
    key = await key_with(deployment, bytes_in_flight=each // 2)
    async with deployment.client(api, key) as lab:
        raised = await refusal(lab.conformance.get_golden(canonical(case.to_json())))
    assert isinstance(raised, QuotaExceeded)
    assert (raised.parameter, raised.limit) == ("bytes_in_flight", each // 2)
    await all_given_back(deployment)


@pytest.mark.parametrize("api", APIS)
async def test_calls_beyond_the_rate_are_refused(deployment: Deployment, api: str) -> None:
    key = await key_with(deployment, calls_per_s=0)
    async with deployment.client(api, key) as lab:
        ask = lab.conformance
        for call in (ask.list_suites(), ask.get_golden("any"), ask.verify("any", OUTPUTS)):
            raised = await refusal(call)
            assert isinstance(raised, QuotaExceeded)
            assert raised.parameter == "calls_per_s"
