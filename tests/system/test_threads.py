"""Calls on a device with two threads, over the APIs."""

import multiprocessing
from collections.abc import AsyncIterator
from multiprocessing.process import BaseProcess
from pathlib import Path

import numpy as np
import pytest
from pydantic import SecretStr

from opserve_client import AsyncClient, ConvolutionBackward, CubeMathType, Im2colBackward
from opserve_server.app import running
from opserve_server.serving import Addresses
from opserve_server.settings import Settings

pytestmark = pytest.mark.system
GENERATOR = np.random.default_rng(20261121)


def integers(*shape: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    """Small ones: sums of their products are exact in any order."""
    return GENERATOR.integers(-4, 5, shape).astype(np.float32)


GRADIENTS = ConvolutionBackward(
    grad_output=integers(4, 32, 28, 28),
    input=integers(4, 48, 28, 28),
    weight=integers(32, 48, 3, 3),
    bias_sizes=[32],
    stride=[1, 1],
    padding=[1, 1],
    dilation=[1, 1],
    transposed=False,
    output_padding=[0, 0],
    groups=1,
    output_mask=[True, True, True],
    cube_math_type=CubeMathType.KEEP_DTYPE,
)
FOLD = Im2colBackward(
    grad_output=integers(3, 16 * 9, 64 * 64),
    input_size=[64, 64],
    kernel_size=[3, 3],
    dilation=[1, 1],
    padding=[1, 1],
    stride=[1, 1],
)


@pytest.fixture
async def served() -> AsyncIterator[tuple[Addresses, BaseProcess]]:
    """The addresses of a service, and its worker; other tests' processes may still end."""
    others = set(multiprocessing.active_children())
    settings = Settings(
        store_url=SecretStr(""),
        no_keys=True,
        grpc_address="127.0.0.1:0",
        rest_address="127.0.0.1:0",
        devices=["ascend910b"],
        device_memory_bytes=2**27,
        device_threads=2,
    )
    async with running(settings) as addresses:
        (worker,) = set(multiprocessing.active_children()) - others
        yield addresses, worker


def sleeps_of_other_threads(worker: BaseProcess) -> int:
    """Finished pieces of work of the worker's threads other than its first one."""
    others = Path(f"/proc/{worker.pid}/task").glob("*/status")
    statuses = [path.read_text() for path in others if path.parent.name != str(worker.pid)]
    return sum(int(text.split("voluntary_ctxt_switches:")[1].split()[0]) for text in statuses)


async def test_two_threads_compute_the_result_of_one(served: tuple[Addresses, BaseProcess]) -> None:
    addresses, worker = served
    async with AsyncClient(addresses.grpc) as client, client.open_session() as session:
        await session.set_deterministic_level("strong")
        before = sleeps_of_other_threads(worker)
        one, fold_of_one = await session.run(GRADIENTS), await session.run(FOLD)
        assert sleeps_of_other_threads(worker) == before
        await session.set_deterministic_level("deterministic")
        two, fold_of_two = await session.run(GRADIENTS), await session.run(FOLD)
        assert sleeps_of_other_threads(worker) > before
    np.testing.assert_array_equal(two.grad_input, one.grad_input)
    np.testing.assert_array_equal(two.grad_weight, one.grad_weight)
    np.testing.assert_array_equal(two.grad_bias, one.grad_bias)
    np.testing.assert_array_equal(fold_of_two.out, fold_of_one.out)
