"""Over gRPC and REST, blocking and async, calls end in the same bytes and the same errors."""

from typing import Any

import pytest

from contract.faces import CLIENT_CLASSES, Refusal, every_session, run_two_phases, settle
from kernels.oracles import convolution_backward, im2col_backward
from kernels.oracles.expectation import assert_meets
from kernels.samples import REGISTRY_ERROR_SAMPLES, REGISTRY_SAMPLES
from kernels.samples.sample import ErrorSample, Sample
from opserve_client.private_service import Addresses

pytestmark = pytest.mark.system
SAMPLES = [sample for samples in REGISTRY_SAMPLES.values() for sample in samples]
EXPECTED = {
    "convolution_backward": convolution_backward.expected,
    "im2col_backward": im2col_backward.expected,
}
ERROR_SAMPLES = [sample for samples in REGISTRY_ERROR_SAMPLES.values() for sample in samples]


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.name)
async def test_every_way_ends_in_the_same_bytes_and_within_the_bound(
    service: Addresses, sample: Sample
) -> None:
    memory = sample.buffers()
    async with every_session(service) as sessions:
        outcomes = {
            way: await run_two_phases(session, sample, memory) for way, session in sessions.items()
        }
    first = outcomes["gRPC, blocking"]
    assert not isinstance(first, Refusal), first
    assert all(outcome == first for outcome in outcomes.values())
    for name, expectation in EXPECTED[sample.operator](sample, memory).items():
        memory[name][:] = bytearray(first[name])
        assert_meets(sample.outputs[name].view(memory[name]), expectation)


@pytest.mark.parametrize("error_sample", ERROR_SAMPLES, ids=lambda sample: sample.name)
async def test_every_way_ends_in_the_same_refusal(
    service: Addresses, error_sample: ErrorSample
) -> None:
    async with every_session(service) as sessions:
        outcomes = {
            way: await run_two_phases(session, error_sample.sample, error_sample.buffers())
            for way, session in sessions.items()
        }
    first = outcomes["gRPC, blocking"]
    assert isinstance(first, Refusal)
    assert (first.code, first.parameter) == (error_sample.status, error_sample.parameter)
    assert first.name == error_sample.status.name
    assert all(outcome == first for outcome in outcomes.values())


@pytest.mark.parametrize("operator", REGISTRY_SAMPLES)
async def test_session_run_gives_the_bytes_of_the_two_phases(
    service: Addresses, operator: str
) -> None:
    plain = [sample for sample in REGISTRY_SAMPLES[operator] if _is_plain(sample)]
    assert len(plain) >= 10
    async with every_session(service) as sessions:
        for sample in plain:
            memory = sample.buffers()
            written = await run_two_phases(sessions["gRPC, blocking"], sample, memory)
            assert not isinstance(written, Refusal)
            for session in sessions.values():
                result = await settle(session.run(_call_on_arrays(sample)))
                for name, output in sample.outputs.items():
                    array = getattr(result, name)
                    if array is not None:
                        size = array.size * output.dtype.size_bytes
                        assert array.tobytes() == written[name][:size], (sample.name, name)


def _is_plain(sample: Sample) -> bool:
    """session.run makes contiguous tensors, in the format of their rank."""
    tensors = [tensor for tensor in sample.tensors.values() if tensor is not None]
    return all(tensor.strides is None and tensor.offset == 0 for tensor in tensors)


def _call_on_arrays(sample: Sample) -> Any:  # any operator's class
    outputs = {name: str(tensor.dtype) for name, tensor in sample.outputs.items()}
    return CLIENT_CLASSES[sample.operator](**sample.arrays(), **outputs, **sample.scalars)
