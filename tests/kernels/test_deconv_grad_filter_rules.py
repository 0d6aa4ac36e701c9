"""Refusals of deconv_grad_filter, their order, and values just inside its bounds."""

from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import opserve_kernels
from kernels.execution import plan_of, results
from kernels.oracles.deconv_grad_filter import expected
from kernels.samples.deconv_grad_filter import (
    BASE,
    BASE_HP,
    BASE_PARAM,
    ERROR_SAMPLES,
    MOST,
    SAMPLES,
    deconvolution,
    tensor_of,
)
from kernels.samples.sample import Sample, Values
from opserve_kernels.errors import InvalidArgument
from opserve_kernels.operator import Limit, NamedBuffer, PlanOptions
from opserve_kernels.operators.deconv_grad_filter.contract import LIMITS, RULES
from opserve_kernels.operators.deconv_grad_filter.operator import OPERATOR
from opserve_kernels.operators.deconv_grad_filter.schema import DeconvGradFilter, infer_outputs
from opserve_kernels.profiles import PROFILES
from opserve_kernels.status import DeconvStatus
from opserve_kernels.tensor import DataType, Format

_README = Path(opserve_kernels.__file__).parent / "operators" / "deconv_grad_filter" / "README.md"
_BY_NAME = {sample.name: sample for sample in SAMPLES}
_INVALID = DeconvStatus.DECONV_PARAM_INVALID
_NOT_SUPPORTED = DeconvStatus.DECONV_DTYPE_NOT_SUPPORTED
_HALF = {"dtype": DataType.FLOAT16}
_NCHW = {"format": Format.NCHW}

# One broken rule each of BASE, in the order in which they must be found.
_IN_ORDER: tuple[tuple[str, dict[str, Any]], ...] = (
    ("dy_data", {"dy_data": None}),
    ("x_data", {"x_data": None}),
    ("kernel_h", {"kernel_h": None}),
    ("kernel_w", {"kernel_w": None}),
    ("function", {"function": "fp_deconv_grad_filter"}),
    ("function", {"function": "dp_deconv_grad_filter_s"}),
    ("core_mask", {"function": "fp_deconv_grad_filter_s"}),
    ("core_mask", {"function": "fp_deconv_grad_filter_p", "core_mask": 1}),
    ("core_mask", {"core_mask": 256}),
    ("function", {"function": "hp_deconv_grad_filter_p"}),
    ("dy_data", {"dy_data": tensor_of("dy_data", **_HALF)}),
    ("x_data", {"x_data": tensor_of("x_data", **_HALF)}),
    ("dw_data", {"dw_data": tensor_of("dw_data", **_HALF)}),
    ("dy_data", {"dy_data": tensor_of("dy_data", **_NCHW)}),
    ("x_data", {"x_data": tensor_of("x_data", **_NCHW)}),
    ("dw_data", {"dw_data": tensor_of("dw_data", **_NCHW)}),
    ("dy_data", {"dy_data": tensor_of("dy_data", shape=(25, 6))}),
    ("x_data", {"x_data": tensor_of("x_data", shape=(2, 0, 4, 4))}),
    ("param", {"param": (1,) * 18}),
    ("kernel_h", {"kernel_h": 0}),
    ("kernel_w", {"kernel_w": MOST + 1}),
    ("stride_h", {"stride_h": 0}),
    ("stride_w", {"stride_w": -1}),
    ("dilation_h", {"dilation_h": 0}),
    ("dilation_w", {"dilation_w": 0}),
    ("group", {"group": 0}),
    ("pad_u", {"pad_u": -1}),
    ("pad_l", {"pad_l": -1}),
    ("input_batch", {"input_batch": 3}),
    ("in_h", {"in_h": 4}),
    ("in_w", {"in_w": 3}),
    ("in_c", {"in_c": 3}),
    ("batch", {"batch": 3}),
    ("out_h", {"out_h": 4}),
    ("out_w", {"out_w": 4}),
    ("out_c", {"out_c": 3}),
    ("batch", {"dy_data": tensor_of("dy_data", shape=(3, 5, 5, 6))}),
    ("group", {"group": 3}),
    ("kernel_h", {"kernel_h": MOST}),
    ("kernel_w", {"kernel_w": MOST}),
    ("row_order", {"row_order": "oc"}),
    ("dw_data", {"dw_data": None}),
    ("dw_data.shape", {"dw_data": tensor_of("dw_data", shape=(2, MOST, 2**62))}),
    ("dw_data", {"dw_data": tensor_of("dw_data", shape=(2, 2, 18))}),
)
_ENDS_WITH = {"kernel_h": "param", "kernel_w": "param", "core_mask": "core_mask"}
"""Arguments that are optional once another one is given."""
_PAIRS = [
    (first, second)
    for first, second in combinations(_IN_ORDER, 2)
    if not first[1].keys() & second[1].keys() and _ENDS_WITH.get(first[0]) not in second[1]
]
_ENTRIES = [(10, "stride_h", 0), (13, "pad_l", -1), (16, "group", 3), (1, "in_h", 4)]


def _refusal(sample: Sample) -> InvalidArgument:
    with pytest.raises(InvalidArgument) as refusal:
        plan_of(sample)
    return refusal.value


@pytest.mark.parametrize("error", ERROR_SAMPLES, ids=lambda error: error.name)
def test_broken_rule_is_refused_with_its_code_and_parameter(error: Any) -> None:
    refusal = _refusal(error.sample)

    assert (refusal.status, refusal.parameter) == (error.status, error.parameter)
    assert refusal.status.domain == "opserve.ft_dsp"


def test_error_table_rules_and_samples_have_the_same_rows() -> None:
    section = _README.read_text(encoding="utf-8").split("## Errors")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("| `DECONV")]
    rows = [tuple(cell.strip(" `") for cell in line.strip("|").split("|")) for line in lines]

    assert sorted(rows) == sorted((r.status.name, r.parameter, r.broken, r.origin) for r in RULES)
    errors = sorted((e.status.name, e.parameter, e.rule) for e in ERROR_SAMPLES)
    assert sorted(row[:3] for row in rows) == errors
    assert len(set(rows)) == len(rows)


@pytest.mark.parametrize("first", _IN_ORDER)
def test_of_two_broken_rules_the_earlier_is_reported(first: tuple[str, dict[str, Any]]) -> None:
    for second in (second for one, second in _PAIRS if one is first):
        broken = BASE.but(f"two broken rules, {second}", **second[1], **first[1])

        assert _refusal(broken).parameter == first[0], f"with {second}"


def test_pairs_of_broken_rules_are_many() -> None:
    assert len(_PAIRS) > 600


@pytest.mark.parametrize("function", ["dp_deconv_grad_filter_s", "fp_deconvgradfilter_s"])
def test_unknown_function_is_reported_before_its_missing_core_mask(function: str) -> None:
    refusal = _refusal(BASE.but("unknown", function=function))

    assert (refusal.status, refusal.parameter) == (_INVALID, "function")


def test_call_of_tensors_only_is_refused_with_the_first_missing_argument() -> None:
    bare = BASE.but("bare", kernel_h=None, kernel_w=None, group=None)

    assert _refusal(bare).allowed.startswith("kernel_h and kernel_w, or ")


@pytest.mark.parametrize("size", [MOST, 2**29])
@pytest.mark.parametrize("inferred", [True, False])
def test_kernel_of_an_impossible_gradient_is_refused_before_the_gradient(
    size: int, *, inferred: bool
) -> None:
    vast = BASE.but("vast", kernel_h=size, kernel_w=size, dw_data=None).arguments()
    if inferred:
        vast = replace(vast, **infer_outputs(vast))

    for arguments, parameters in (
        (vast, {"kernel_h", "kernel_w"}),
        (replace(vast, in_c=3), {"in_c"}),
    ):
        with pytest.raises(InvalidArgument) as refusal:
            OPERATOR.plan(arguments, PROFILES["ft78ne"], PlanOptions())
        assert refusal.value.parameter in parameters


@pytest.mark.parametrize(("kernel_h", "fits"), [(MOST // 3, True), (MOST // 3 + 1, False)])
def test_rows_of_the_gradient_are_at_most_2147483647(kernel_h: int, *, fits: bool) -> None:
    rows = tensor_of("dw_data", shape=(2, 3 * kernel_h, 2), strides=(0, 0, 0))
    sample = BASE.but("rows", kernel_h=kernel_h, kernel_w=1, dw_data=rows)

    if fits:
        assert plan_of(sample).units > 0
    else:
        assert _refusal(sample).parameter == "kernel_h"


@pytest.mark.parametrize("limit", LIMITS, ids=lambda limit: limit.parameter)
def test_numbers_are_refused_just_outside_their_limits_only(limit: Limit) -> None:
    allowed = f"{limit.least} to {limit.most}"
    assert limit.most == MOST
    for number in (limit.least - 1, MOST + 1):
        refusal = _refusal(BASE.but("outside", **{limit.parameter: number}))
        assert (refusal.parameter, refusal.allowed) == (limit.parameter, allowed)
        assert refusal.status == _INVALID
    for number in (limit.least, MOST):
        assert _allowed(BASE.but("at the limit", **{limit.parameter: number})) != allowed


def _allowed(sample: Sample) -> str:
    """The allowed values of a refusal; empty where there is none."""
    try:
        plan_of(sample)
    except InvalidArgument as refusal:
        return refusal.allowed
    return ""


@pytest.mark.parametrize(
    "name", ["stride_h", "stride_w", "dilation_h", "dilation_w", "pad_u", "pad_l"]
)
def test_greatest_numbers_are_computed_with(name: str) -> None:
    changes: dict[str, Any] = {name: MOST, "values": Values.INTEGERS}
    sample = deconvolution("greatest", (2, 3, 4, 2), (2, 5, 5, 3), (3, 2), **changes)
    buffers = sample.buffers()

    np.testing.assert_array_equal(
        results(sample)["dw_data"], expected(sample, buffers)["dw_data"].value
    )


@pytest.mark.parametrize(("entry", "parameter", "number"), _ENTRIES)
def test_entries_of_param_are_checked_by_the_names_of_their_fields(
    entry: int, parameter: str, number: int
) -> None:
    param = list(BASE_PARAM.scalars["param"])
    param[entry] = number

    assert _refusal(BASE_PARAM.but("entry", param=tuple(param))).parameter == parameter


@pytest.mark.parametrize("length", [0, 1, 17, 21])
def test_param_has_18_to_20_entries(length: int) -> None:
    param = (BASE_PARAM.scalars["param"] + (0,) * 3)[:length]

    refusal = _refusal(BASE_PARAM.but("length", param=param))

    assert (refusal.parameter, refusal.allowed) == ("param", "18 to 20 entries")


@pytest.mark.parametrize("name", [*_BY_NAME["every field"].scalars])
def test_param_excludes_the_fields_that_it_contains(name: str) -> None:
    refusal = _refusal(BASE_PARAM.but("both", **{name: 1}))

    assert (refusal.status, refusal.parameter) == (_INVALID, "param")
    assert name in refusal.given


@pytest.mark.parametrize("core_mask", [-1, 0, 256, 2**31])
def test_core_masks_outside_the_cores_are_refused(core_mask: int) -> None:
    refusal = _refusal(BASE.but("mask", core_mask=core_mask))

    assert (refusal.parameter, refusal.given) == ("core_mask", str(core_mask))
    assert refusal.allowed.startswith("1 to 255: ")


def test_hp_on_ft78ne_is_refused_naming_the_profiles_that_have_it() -> None:
    for sample in (BASE_HP, BASE.but("hp", function="hp_deconv_grad_filter_p")):
        refusal = _refusal(sample)

        assert refusal.status == _NOT_SUPPORTED
        assert refusal.allowed == "dtypes FLOAT on ft78ne; FLOAT16 on mt7004, reference"


@pytest.mark.parametrize("profile", ["ft78ne", "mt7004"])
@pytest.mark.parametrize("dtype", [DataType.BF16, DataType.DOUBLE, DataType.INT8])
def test_dtypes_without_a_function_are_refused(profile: str, dtype: DataType) -> None:
    sample = deconvolution(
        "dtype", (1, 1, 1, 1), (1, 1, 1, 1), (1, 1), profile=profile, dtype=dtype
    )

    refusal = _refusal(sample)

    assert (refusal.status, refusal.parameter) == (_NOT_SUPPORTED, "dy_data")


@pytest.mark.parametrize("dtype", [DataType.FLOAT16, DataType.BF16, DataType.DOUBLE])
def test_fp_is_refused_for_tensors_of_other_dtypes(dtype: DataType) -> None:
    sample = deconvolution(
        *("fp", (1, 1, 1, 1), (1, 1, 1, 1), (1, 1)),
        profile="reference",
        dtype=dtype,
        function="fp_deconv_grad_filter_p",
    )

    refusal = _refusal(sample)

    assert (refusal.status, refusal.parameter) == (_INVALID, "function")


@pytest.mark.parametrize(
    ("name", "changes", "size_bytes"),
    [
        ("vendor's, ones", {}, 4096),
        ("hp, private storage", {}, 2048),
        ("groups", {"core_mask": 0b11}, 3 * 2 * 3 * 3 * 4 * 4),
    ],
)
def test_temp_space_must_hold_the_rows_of_one_entry_and_group(
    name: str, changes: dict[str, Any], size_bytes: int
) -> None:
    sample = _BY_NAME[name]
    if "param" in sample.scalars:
        param = sample.scalars["param"]
        changes = {"param": (*param[:17], 9, *param[18:])}
    else:
        changes = {**changes, "temp_space": 9}

    plan = plan_of(sample.but("temp_space", **changes))

    (named,) = plan.buffers
    status = DeconvStatus.DECONV_PARAM_INVALID
    assert named == NamedBuffer(
        parameter="temp_space", handle=9, size_bytes=size_bytes, status=status
    )
    assert plan.parameters == plan_of(sample).parameters


def test_no_temp_space_is_no_buffer() -> None:
    assert plan_of(BASE.but("zero", temp_space=0)) == plan_of(BASE_PARAM) == plan_of(BASE)
    assert plan_of(BASE).buffers == ()


@pytest.mark.parametrize("sample", [*SAMPLES, BASE_PARAM], ids=lambda sample: sample.name)
def test_gradient_that_was_not_given_is_inferred_from_the_other_arguments(sample: Sample) -> None:
    (inferred,) = infer_outputs(sample.but("bare", dw_data=None).arguments()).values()

    assert inferred.shape == sample.outputs["dw_data"].shape
    assert inferred.dtype == sample.inputs["x_data"].dtype
    assert inferred.buffer == 0


@pytest.mark.parametrize("error", ERROR_SAMPLES, ids=lambda error: error.name)
def test_malformed_calls_are_inferred_from_without_an_error(error: Any) -> None:
    bare = error.sample.but("bare", dw_data=None).arguments()

    assert set(infer_outputs(bare)) <= {"dw_data"}


def test_nothing_is_inferred_from_nothing_or_where_it_was_given() -> None:
    assert infer_outputs(DeconvGradFilter()) == infer_outputs(BASE.arguments()) == {}
