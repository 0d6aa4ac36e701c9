"""Convolutions of other projects as forward calls, some with the arrays that they ship."""

from collections import Counter
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from contract.corpora import Case, cases, stored_arrays, stored_case
from kernels.execution import execute, plan_of
from kernels.oracles.convolution_backward import forward, geometry_of
from kernels.oracles.expectation import assert_meets, expect
from kernels.samples.layers import layer
from kernels.samples.sample import Sample, Values
from opserve_kernels.errors import InvalidArgument
from opserve_kernels.operator import PlanOptions
from opserve_kernels.status import Status
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


def _with_output_shape() -> Case:
    """The case of ONNX that pads its output; the form of the others has no place for that."""
    case = stored_case("onnx-node-test_convtranspose_output_shape-0")
    maps = case["maps_to"]
    steps = {name: maps[name] for name in ("stride", "dilation", "groups", "transposed")}
    arguments = {**steps, "padding": maps["pads_begin_end"][0]}
    return {"case_id": case["case_id"], "role": "gradInput", "args": arguments}


@pytest.mark.parametrize(("corpus", "count"), [("onnx", 47), ("webnn", 63)])
@pytest.mark.parametrize("profile", ["ascend910b", "reference"])
def test_stored_convolutions_are_computed(corpus: str, count: int, profile: str) -> None:
    found = [case for case in cases(corpus) if case["op"] == "aclnnConvolutionBackward"]
    if corpus == "onnx":
        found.append(_with_output_shape())
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


RECORDED = ("torch", "tensorflow", "cutlass", "nvidia", "onnx", "webnn")
_RULES = {
    "input": "smaller than its kernel",  # a call of TensorFlow, whose result is empty
    "padding": "above the span of a transposed 3-D kernel",  # a call of PyTorch
}
_REFUSED = {f"161002: {rule}": 1 for rule in _RULES.values()}
_MOST_PRODUCTS = 200_000  # of a call that runs here


def _recorded(case: Case) -> Sample:
    """A call whose gradients a project recorded, as the forward call, of small integers."""
    names = ("stride", "padding", "dilation")
    arguments: dict[str, Any] = case["args"]
    rows: dict[str, Any] = {name: tuple(arguments[name]) for name in names}
    return layer(
        case["case_id"],
        tuple(case["args"]["input"]),
        tuple(case["args"]["weight"]),
        output_padding=tuple(case["args"]["outputPadding"]),
        transposed=arguments["transposed"],
        groups=arguments["groups"],
        values=Values.INTEGERS,
        **rows,
    )


def _refusal(sample: Sample) -> str | None:
    try:
        plan_of(sample)
    except InvalidArgument as refusal:
        return f"{int(refusal.status)}: {_RULES[refusal.parameter]}"
    return None


def test_all_recorded_calls_but_two_are_accepted_and_computed() -> None:
    found = [case for corpus in RECORDED for case in cases(corpus) if _is_convolution(case)]
    refused: Counter[str] = Counter()
    computed = 0
    for case in found:
        sample = _recorded(case)
        refusal = _refusal(sample)
        if refusal is not None:
            refused[refusal] += 1
        elif case["cost"] <= _MOST_PRODUCTS:
            _assert_exact(sample)
            computed += 1
    assert refused == _REFUSED
    assert (len(found), computed) == (397, 309)


def _is_convolution(case: Case) -> bool:
    return bool(case["op"] == "aclnnConvolutionBackward")


def _assert_exact(sample: Sample) -> None:
    """Sums of small integers are exact in every order."""
    buffers = sample.buffers()
    given = {name: array.astype(np.float64) for name, array in sample.logical(buffers).items()}
    output = sample.outputs["output"]
    value = forward(given["input"], given["weight"], output.shape, geometry_of(sample.scalars))
    value += given["bias"].reshape(-1, *[1] * (value.ndim - 2))
    execute(sample, buffers, options=PlanOptions())
    np.testing.assert_array_equal(output.view(buffers["output"]), value, sample.name)


_PARAMETERS = {
    "should be the same": ("input",),  # integers, beside a bias in floating point
    "non-positive stride is not supported": ("stride",),
    "negative padding is not supported": ("padding",),
    "dilation should be greater than zero": ("dilation",),
    "weight should have at least three dimensions": ("weight",),
    "Expected 3-dimensional input for 3-dimensional weight": ("weight",),
    "Expected 4-dimensional input for 4-dimensional weight": ("weight",),
    # aclnn checks first whether the kernel fits.
    "expected weight to be at least 3 at dimension 0": ("weight", "input"),
    "non-positive groups is not supported": ("groups",),
}


def test_error_inputs_of_pytorch_are_refused_for_the_same_argument() -> None:
    found = cases("torch_errors")
    assert len(found) == 26
    for case in found:
        axes = len(case["input"]) - 2
        plain = layer("", (1, 1, *[9] * axes), (1, 1, *[1] * axes), profile="reference")
        shapes = {name: tuple(case[name]) for name in ("input", "weight", "bias")}
        dtypes = {"input": case["dtype"], "weight": case["dtype"], "bias": case["biasDtype"]}
        tensors: dict[str, Any] = {
            name: replace(plain.inputs[name], shape=shape, dtype=DataType(dtypes[name]))
            for name, shape in shapes.items()
        }
        rows: dict[str, Any] = {
            name: tuple(case[name]) for name in ("stride", "padding", "dilation")
        }
        broken = plain.but(case["case_id"], groups=case["groups"], **tensors, **rows)
        with pytest.raises(InvalidArgument) as refusal:
            plan_of(broken)
        assert refusal.value.status is Status.ACLNN_ERR_PARAM_INVALID, case["case_id"]
        assert refusal.value.parameter in _PARAMETERS[case["error"]], case["case_id"]
