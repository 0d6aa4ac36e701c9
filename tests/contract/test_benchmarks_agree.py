"""session.benchmark by every API and client: every sample, grouped, cold, and nothing left."""

from typing import Any

import numpy as np
import pytest

from contract.apis import every_session, settle
from opserve_client import AclnnError, AclrtError, Benchmark, Im2colBackward
from opserve_client.private_service import Addresses

pytestmark = pytest.mark.system


def call(**changes: Any) -> Im2colBackward:
    given: dict[str, Any] = {
        "grad_output": np.ones((1, 4, 16), np.float16),
        "input_size": [5, 5],
        "kernel_size": [2, 2],
        "dilation": [1, 1],
        "padding": [0, 0],
        "stride": [1, 1],
    }
    return Im2colBackward(**given | changes)


async def test_every_sample_is_reported_and_nothing_is_left(service: Addresses) -> None:
    async with every_session(service, "ascend910b") as sessions:
        for session in sessions.values():
            result = await settle(session.benchmark(call(), repeats=5))
            assert isinstance(result, Benchmark)
            assert result.runs == (1,) * 5
            assert len(result.samples_ms) == 5
            assert 0 < result.min_ms <= result.median_ms
            trace = await settle(session.trace())
            names = [e["args"]["name"] for e in trace["traceEvents"] if e["name"] == "thread_name"]
            assert "stream 1" not in names
            with pytest.raises(AclrtError, match="buffer"):
                await settle(session.tensor(await dead(session), [1], "float32").download())


async def dead(session: Any) -> Any:
    """A buffer by the handle of the benchmark's first one."""
    buffer = await settle(session.allocate(4))
    assert buffer.handle > 1, "the benchmark made buffers"
    await settle(buffer.free())
    buffer.handle = 1
    return buffer


async def test_a_sample_lasts_as_long_as_configured(service: Addresses) -> None:
    async with every_session(service, "ascend910b") as sessions:
        for session in sessions.values():
            result = await settle(session.benchmark(call(), warmup=1, repeats=2, min_repeat_ms=2.0))
            assert all(
                sample * runs >= 2.0
                for sample, runs in zip(result.samples_ms, result.runs, strict=True)
            )
            assert all(runs > 1 for runs in result.runs)


async def test_tensors_on_the_device_and_cold_caches_are_taken(service: Addresses) -> None:
    async with every_session(service, "ascend910b") as sessions:
        for session in sessions.values():
            tensor = await settle(session.upload(np.ones((1, 4, 16), np.float16), format="ND"))
            on_device = call(grad_output=tensor)
            result = await settle(session.benchmark(on_device, repeats=2, flush_cache=True))
            assert len(result.samples_ms) == 2


def asked(**given: Any) -> dict[str, Any]:
    return given


async def test_wrong_arguments_are_refused_as_in_run(service: Addresses) -> None:
    refused = [asked(warmup=0), asked(repeats=0), asked(min_repeat_ms=-1.0)]
    async with every_session(service, "ascend910b") as sessions:
        for session in sessions.values():
            with pytest.raises(AclnnError, match="kernel_size"):
                await settle(session.benchmark(call(kernel_size=[0, 2])))
            for given in refused:
                with pytest.raises(AclrtError, match=next(iter(given))):
                    await settle(session.benchmark(call(), **given))
            assert (await settle(session.run(call()))).out.shape == (1, 1, 5, 5)
