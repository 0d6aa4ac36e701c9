"""The convolutions that ONNX and WebNN ship with arrays, as forward calls: all are accepted."""

from math import prod
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from contract.corpora import Case, cases, stored_arrays
from kernels.execution import execute
from kernels.oracles.convolution_backward import forward, geometry_of
from kernels.oracles.expectation import assert_meets, expect
from kernels.samples.layers import layer
from kernels.samples.sample import Sample
from opserve_kernels.tensor import DataType

Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]


def _sample(case: Case, stored: dict[str, Floats], profile: str) -> Sample:
    """The call; that of a transposed convolution is recorded as its plain counterpart."""
    arguments = case["args"]
    transposed = bool(case["role"].startswith("gradInput") or arguments["transposed"])
    axes = stored["X"].ndim - 2
    extra = [0] * axes
    steps: dict[str, Any] = {
        "stride": tuple(arguments["stride"]),
        "padding": tuple(arguments["padding"]),
        "dilation": tuple(arguments["dilation"]),
        "groups": arguments["groups"],
        "transposed": transposed,
    }
    if transposed:
        exact = layer("", stored["X"].shape, stored["W"].shape, **steps).outputs["output"].shape
        extra = [n - m for n, m in zip(stored["Y"].shape[2:], exact[2:], strict=True)]
    sample = layer(
        case["case_id"],
        stored["X"].shape,
        stored["W"].shape,
        bias="B" in stored,
        output_padding=tuple(extra),
        dtypes=(*(DataType.FLOAT,) * 3, _made(profile)),
        profile=profile,
        **steps,
    )
    assert sample.outputs["output"].shape == stored["Y"].shape
    return sample


def _made(profile: str) -> DataType:
    return DataType.DOUBLE if profile == "reference" else DataType.FLOAT


def _output(sample: Sample, stored: dict[str, Floats]) -> Doubles:
    buffers = sample.buffers()
    for name, theirs in (("input", "X"), ("weight", "W"), ("bias", "B")):
        if theirs in stored:
            sample.inputs[name].view(buffers[name])[...] = stored[theirs]
    execute(sample, buffers)
    return sample.outputs["output"].view(buffers["output"]).astype(np.float64)


def _magnitude(sample: Sample, stored: dict[str, Floats]) -> Doubles:
    """The sums of magnitudes."""
    given = {name: np.abs(array.astype(np.float64)) for name, array in stored.items()}
    sums = forward(given["X"], given["W"], given["Y"].shape, geometry_of(sample.scalars))
    return sums + given.get("B", np.zeros(1)).reshape(-1, *[1] * (sums.ndim - 2))


@pytest.mark.parametrize(("corpus", "count"), [("onnx", 46), ("webnn", 63)])
@pytest.mark.parametrize("profile", ["ascend910b", "reference"])
def test_stored_convolutions_are_computed(corpus: str, count: int, profile: str) -> None:
    found = [case for case in cases(corpus) if case["op"] == "aclnnConvolutionBackward"]
    assert len(found) == count
    for case in found:
        stored = stored_arrays(case)
        sample = _sample(case, stored, profile)
        weight = stored["W"].shape
        terms = prod(weight) // weight[1 if sample.scalars["transposed"] else 0] + 1
        # Both have float32 sums but that of `reference`: twice the terms have twice the squares.
        terms *= 1 if profile == "reference" else 2
        bound = expect(
            stored["Y"].astype(np.float64),
            _magnitude(sample, stored),
            terms=terms,
            roundings=(DataType.FLOAT, DataType.FLOAT),
        )
        assert_meets(_output(sample, stored), bound)
