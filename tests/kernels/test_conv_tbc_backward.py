"""aclnnConvTbcBackward against naive loops, the vendor's values and the laws of its layout."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernels.execution import execute, plan_of, results
from kernels.oracles.conv_tbc_backward import expected
from kernels.oracles.expectation import assert_meets
from kernels.samples import convolution_backward
from kernels.samples.conv_tbc_backward import BASE, SAMPLES, tbc, tensor_of
from kernels.samples.sample import Sample
from kernels.samples.vendor_tbc import TBC_BACKWARD, VendorCall
from opserve_kernels.errors import InvalidArgument
from opserve_kernels.operator import DocumentedRules, PlanOptions
from opserve_kernels.registry import OPERATORS
from opserve_kernels.tensor import DataType

_DOUBLES = (DataType.DOUBLE,) * 4
_ON_REFERENCE = [replace(sample, profile="reference") for sample in SAMPLES]
_BY_NAME = {sample.name: sample for sample in SAMPLES}
laws = settings(max_examples=100, deadline=None, derandomize=True)


@pytest.mark.parametrize(
    "sample", [*SAMPLES, *_ON_REFERENCE], ids=lambda sample: f"{sample.name} on {sample.profile}"
)
def test_gradients_are_those_of_the_definition(sample: Sample) -> None:
    buffers = sample.buffers()
    expectations = expected(sample, buffers)

    execute(sample, buffers)

    for name, expectation in expectations.items():
        assert_meets(sample.outputs[name].view(buffers[name]), expectation)


@pytest.mark.parametrize("profile", OPERATORS["conv_tbc_backward"].support)
def test_vendors_sample_program_computes_its_values(profile: str) -> None:
    found = results(replace(_BY_NAME["vendor's"], profile=profile))

    assert np.all(found["grad_input"] == 2)
    assert np.all(found["grad_weight"] == 5)
    assert np.all(found["grad_bias"] == 5)


@pytest.mark.parametrize("profile", OPERATORS["conv_tbc_backward"].support)
@pytest.mark.parametrize("name", ["no times", "no input channels", "no taps"])
def test_an_empty_call_sums_its_bias_where_the_vendor_counts_positions(
    name: str, profile: str
) -> None:
    halves = {
        tensor: replace(given, dtype=DataType.FLOAT16)
        for tensor, given in _BY_NAME[name].tensors.items()
        if given is not None
    }
    sample = replace(_BY_NAME[name], tensors=halves, profile=profile)
    buffers = sample.buffers()
    incoming = sample.inputs["self"].view(buffers["self"])
    incoming[...] = 0.5

    execute(sample, buffers)

    positions = incoming.shape[0] * incoming.shape[1]
    assert np.all(sample.outputs["grad_bias"].view(buffers["grad_bias"]) == positions / 2)
    for gradient in ("grad_input", "grad_weight"):
        assert not np.any(sample.outputs[gradient].view(buffers[gradient]))


@pytest.mark.parametrize("row", TBC_BACKWARD, ids=lambda row: row.sample.name)
def test_unit_tests_of_the_vendor_have_their_status(row: VendorCall) -> None:
    if row.status is None:
        plan_of(row.sample)
        return
    with pytest.raises(InvalidArgument) as refusal:
        plan_of(row.sample)
    assert (refusal.value.status, refusal.value.parameter) == (row.status, row.parameter)


@st.composite
def drawn_calls(draw: st.DrawFn) -> Sample:
    """Calls of any geometry on `reference`, in DOUBLE."""
    taps, pad = draw(st.integers(1, 5)), draw(st.integers(0, 4))
    batch, inputs, outputs = (draw(st.integers(1, 4)) for _ in range(3))
    time = draw(st.integers(max(1, taps - 2 * pad), 12))
    image, weight = (time, batch, inputs), (taps, inputs, outputs)
    return tbc("drawn", image, weight, pad, dtypes=_DOUBLES, profile="reference")


@laws
@given(sample=drawn_calls())
def test_it_is_convolution_backward_in_one_dimension_with_axes_permuted(sample: Sample) -> None:
    given_ = sample.arrays()
    plain = convolution_backward.convolution(
        "plain",
        tuple(np.transpose(given_["input"], (1, 2, 0)).shape),
        tuple(np.transpose(given_["weight"], (2, 1, 0)).shape),
        padding=(sample.scalars["pad"],),
        dtypes=_DOUBLES[:3],
        profile="reference",
    )
    buffers = plain.buffers()
    for name, other, axes in (
        ("grad_output", "self", (1, 2, 0)),
        ("input", "input", (1, 2, 0)),
        ("weight", "weight", (2, 1, 0)),
    ):
        plain.inputs[name].view(buffers[name])[...] = np.transpose(given_[other], axes)

    execute(plain, buffers)
    found = results(sample)

    by_name = {name: plain.outputs[name].view(buffers[name]) for name in plain.outputs}
    grad_input = np.transpose(by_name["grad_input"], (2, 0, 1))
    np.testing.assert_allclose(found["grad_input"], grad_input, rtol=1e-13, atol=1e-13)
    grad_weight = np.transpose(by_name["grad_weight"], (2, 1, 0))
    np.testing.assert_allclose(found["grad_weight"], grad_weight, rtol=1e-13, atol=1e-13)
    np.testing.assert_allclose(found["grad_bias"], by_name["grad_bias"], rtol=1e-13, atol=1e-13)


def test_a_rule_of_the_page_is_a_warning_with_either_answer_of_the_session() -> None:
    sample = BASE.but("FLOAT bias", bias=tensor_of("bias", dtype=DataType.FLOAT))
    sample = sample.but("both", grad_bias=tensor_of("grad_bias", dtype=DataType.FLOAT))
    for answer in DocumentedRules:
        (warning,) = plan_of(sample, PlanOptions(documented_rules=answer)).warnings
        assert warning.parameter == "bias"


@pytest.mark.parametrize("shape", [(6, 2, 5), (7, 3, 5), (7, 2, 4)])
def test_each_size_of_self_is_that_of_the_output(shape: tuple[int, int, int]) -> None:
    with pytest.raises(InvalidArgument) as refusal:
        plan_of(BASE.but("another size", self=tensor_of("self", shape=shape)))
    assert refusal.value.parameter == "self"


@pytest.mark.parametrize("kind", [-1, 4])
def test_a_cube_math_type_outside_its_range_is_refused(kind: int) -> None:
    with pytest.raises(InvalidArgument) as refusal:
        plan_of(BASE.but("another kind", cube_math_type=kind))
    assert refusal.value.parameter == "cube_math_type"


@pytest.mark.parametrize("kind", [0, 3])
def test_a_product_without_a_cube_for_float_refuses_to_keep_it(kind: int) -> None:
    sample = tbc("FLOAT", (7, 2, 3), (3, 3, 5), cube_math_type=kind, profile="ascend910")
    with pytest.raises(InvalidArgument) as refusal:
        plan_of(sample)
    assert refusal.value.parameter == "cube_math_type"


def test_the_largest_pad_of_the_page_makes_no_warning() -> None:
    limits = {limit.parameter: limit.most for limit in OPERATORS["conv_tbc_backward"].limits}
    most = limits["pad"]
    assert most is not None
    layout = {"self": {"strides": (0, 0, 0)}}
    largest = tbc("far", (1, 1, 1), (1, 1, 1), most, cube_math_type=1, layout=layout)

    assert plan_of(largest).warnings == ()
