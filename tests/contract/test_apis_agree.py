"""Over gRPC and Connect, blocking and async, calls end in the same bytes and the same errors."""

import importlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import AsyncExitStack
from typing import Any

import pytest
import pytest_asyncio

from contract.apis import (
    CLIENT_CLASSES,
    AnySession,
    client_scalars,
    every_session,
    refused,
    run_two_phases,
    settle,
)
from kernels.oracles.expectation import Expectation, assert_meets
from kernels.samples import REGISTRY_ERROR_SAMPLES, REGISTRY_SAMPLES
from kernels.samples.sample import Bytes, ErrorSample, Sample
from opserve_client import AclnnError, DeconvError, OpserveError, TbeError
from opserve_client.private_service import Addresses
from opserve_kernels.status import AnyStatus, DeconvStatus, Status, TbeStatus
from opserve_kernels.tensor import Format

pytestmark = [pytest.mark.system, pytest.mark.asyncio(loop_scope="module")]
Sessions = Mapping[str, AnySession]
SessionsOn = Callable[[str], Awaitable[Sessions]]
SAMPLES = [sample for samples in REGISTRY_SAMPLES.values() for sample in samples]
KINDS: Mapping[type[AnyStatus], type[OpserveError]] = {
    Status: AclnnError,
    TbeStatus: TbeError,
    DeconvStatus: DeconvError,
}
ERROR_SAMPLES = [sample for samples in REGISTRY_ERROR_SAMPLES.values() for sample in samples]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def sessions_on(
    service: Addresses,
) -> AsyncIterator[SessionsOn]:
    """The sessions on a profile, opened when they are first asked for: hundreds of tests do."""
    async with AsyncExitStack() as stack:
        opened: dict[str, Sessions] = {}

        async def on(profile: str) -> Sessions:
            if profile not in opened:
                made = every_session(service, profile)
                opened[profile] = await stack.enter_async_context(made)
            return opened[profile]

        yield on


def slow_but_the_first_of_a_kind(samples: Iterable[Sample]) -> list[Any]:
    """Parameters of a test that makes up to eight calls for each sample.

    A kind: an operator on a profile with its tensors of some dtypes and formats.
    """
    seen: set[tuple[object, ...]] = set()
    parameters: list[Any] = []
    for sample in samples:
        tensors = [tensor for tensor in sample.tensors.values() if tensor is not None]
        forms = frozenset((tensor.dtype, tensor.format) for tensor in tensors)
        kind = (sample.operator, sample.profile, forms)
        marks = pytest.mark.slow if kind in seen else ()
        seen.add(kind)
        parameters.append(pytest.param(sample, marks=marks, id=sample.name))
    return parameters


# Some break rules of the page that the vendor's own tests contradict: accepted with a warning.
@pytest.mark.filterwarnings("ignore::opserve_client.DocumentedRuleWarning")
@pytest.mark.parametrize("sample", slow_but_the_first_of_a_kind(SAMPLES))
async def test_every_way_ends_in_the_same_bytes_and_within_the_bound(
    sessions_on: SessionsOn, sample: Sample
) -> None:
    memory = sample.buffers()
    first, *others = (await sessions_on(sample.profile)).values()
    written = await run_two_phases(first, sample, memory)
    for session in others:
        assert await run_two_phases(session, sample, memory) == written
    if is_plain(sample):
        for session in (first, *others):
            await assert_run_gives(session, sample, written)
    for name, expectation in expected(sample, memory).items():
        memory[name][:] = bytearray(written[name])
        assert_meets(sample.outputs[name].view(memory[name]), expectation)


def slow_but_the_first_refusal_of_a_parameter(samples: Iterable[ErrorSample]) -> list[Any]:
    """Parameters of a test that calls every API; tests/kernels/test_checks.py has each refusal."""
    seen: set[tuple[object, ...]] = set()
    parameters: list[Any] = []
    for sample in samples:
        kind = (sample.sample.operator, sample.status, sample.parameter)
        marks = pytest.mark.slow if kind in seen else ()
        seen.add(kind)
        parameters.append(pytest.param(sample, marks=marks, id=sample.name))
    return parameters


@pytest.mark.parametrize("error_sample", slow_but_the_first_refusal_of_a_parameter(ERROR_SAMPLES))
async def test_every_way_ends_in_the_same_refusal(
    sessions_on: SessionsOn, error_sample: ErrorSample
) -> None:
    memory = error_sample.buffers()
    first, *others = [
        await refused(session, error_sample.sample, memory)
        for session in (await sessions_on(error_sample.sample.profile)).values()
    ]
    status = error_sample.status
    assert first.kind is KINDS[type(status)]
    assert first.code == (status.name if isinstance(status, TbeStatus) else status)
    assert (first.name, first.parameter) == (status.name, error_sample.parameter)
    assert all(other == first for other in others)


@pytest.mark.parametrize("operator", REGISTRY_SAMPLES)
async def test_samples_run_in_one_call_too(operator: str) -> None:
    assert len([sample for sample in REGISTRY_SAMPLES[operator] if is_plain(sample)]) >= 10


async def assert_run_gives(
    session: AnySession, sample: Sample, written: Mapping[str, bytes]
) -> None:
    """session.run returns the bytes of the two phases."""
    result = await settle(session.run(_call_on_arrays(sample)))
    for name, output in sample.outputs.items():
        array = getattr(result, name)
        if array is not None:
            size = array.size * output.dtype.size_bytes
            assert array.tobytes() == written[name][:size], name


def expected(sample: Sample, memory: Mapping[str, Bytes]) -> dict[str, Expectation]:
    """Expected outputs of a sample's call, from the operator's oracle."""
    oracle: Any = importlib.import_module(f"kernels.oracles.{sample.operator}")
    expectations: dict[str, Expectation] = oracle.expected(sample, memory)
    return expectations


def is_plain(sample: Sample) -> bool:
    """session.run makes contiguous tensors, in the format of their rank: never NDHWC."""
    tensors = [tensor for tensor in sample.tensors.values() if tensor is not None]
    return all(
        tensor.strides is None and tensor.offset == 0 and tensor.format is not Format.NDHWC
        for tensor in tensors
    )


def _call_on_arrays(sample: Sample) -> Any:  # any operator's class
    outputs = {name: str(tensor.dtype) for name, tensor in sample.outputs.items()}
    return CLIENT_CLASSES[sample.operator](**sample.arrays(), **outputs, **client_scalars(sample))
