"""Refusals of the TBE operators: order of rules, limits, profiles; and inferred values."""

from collections.abc import Mapping
from dataclasses import replace
from itertools import combinations
from typing import Any

import pytest

from kernels.execution import plan_of
from kernels.samples import conv2d_backprop_filter as dw
from kernels.samples import conv2d_backprop_input as dx
from kernels.samples.para_dicts import changed
from kernels.samples.sample import Sample
from opserve_kernels.errors import InvalidArgument
from opserve_kernels.operators.conv2d_backprop_filter.schema import Conv2dBackpropFilter
from opserve_kernels.operators.conv2d_backprop_input.schema import Conv2dBackpropInput, GroupDict
from opserve_kernels.registry import OPERATORS
from opserve_kernels.status import TbeStatus
from opserve_kernels.tensor import DataType, Format

_E = TbeStatus
Break = tuple[TbeStatus, str, Mapping[str, Any]]
FLOAT, FLOAT16, BF16, INT8 = DataType.FLOAT, DataType.FLOAT16, DataType.BF16, DataType.INT8
DOUBLE = DataType.DOUBLE
_TENSORS = ("filters", "input_x", "out_backprop", "res_tensor")
_PROFILES = ("ascend910b", "ascend910", "ascend310p", "ascend310b", "ascend310", "reference")
_BLOCK: tuple[dx.Sizes, dx.Sizes] = ((1, 16, 3, 3), (16, 16, 2, 2))

# One broken rule each, in the order in which they must be found.
_DX = dx.gradient("pairs", (2, 16, 3, 6), (32, 4, 1, 3), groups=4)
_GROUP_DICT = "para_dict.group_dict"
_DX_IN_ORDER: tuple[Break, ...] = (
    (_E.E60038, "filters", {"filters": None}),
    (_E.E60038, "para_dict", {"para_dict": None}),
    (_E.E60038, "para_dict.strides", {"para_dict.strides": None}),
    (_E.E60011, "filters", {"filters": {"dtype": INT8}}),
    (_E.E60011, "out_backprop", {"out_backprop": {"dtype": INT8}}),
    (_E.E60011, "para_dict.res_dtype", {"para_dict.res_dtype": "int32"}),
    (_E.E65002, "out_backprop", {"out_backprop": {"dtype": BF16}}),
    (_E.E65003, "filters", {"filters": {"shape": (9, 2, 256)}}),
    (_E.E65003, "out_backprop", {"out_backprop": {"shape": (2, 32, 3, 4)}}),
    (_E.E60006, "filter_sizes", {"filter_sizes": (32, 4, 1)}),
    (_E.E60006, "para_dict.strides", {"para_dict.strides": (1, 1, 1)}),
    (_E.E60006, "para_dict.dilations", {"para_dict.dilations": (1, 1)}),
    (_E.E60006, "input_sizes", {"input_sizes": (2, 16, 3)}),
    (_E.E60006, "para_dict.padding", {"para_dict.padding": (0, 0)}),
    (_E.E65004, "para_dict.offset_w", {"para_dict.offset_w": 1}),
    (_E.E65007, "out_backprop", {"out_backprop": {"shape": (2, 2, 3, 4, 8)}}),
    (_E.E60011, "out_backprop", {"para_dict.strides": (0, 1)}),
    (_E.E60011, "out_backprop", {"para_dict.strides": (1, 0)}),
    (_E.E60011, "input_sizes", {"input_sizes": (2, 16, 200001, 6)}),
    (_E.E60011, "input_sizes", {"input_sizes": (2, 16, 3, 4097)}),
    (_E.E65007, "out_backprop", {"input_sizes": (3, 16, 3, 6)}),
    (_E.E65007, "out_backprop", {"para_dict.padding": (1, 0, 0, 0)}),
    (_E.E65007, "out_backprop", {"para_dict.dilations": (1, 1, 1, 2)}),
    (_E.E60011, "filter_sizes", {"filter_sizes": (32, 0, 1, 3)}),
    (_E.E65007, f"{_GROUP_DICT}.groups", {f"{_GROUP_DICT}.groups": None}),
    (_E.E60108, f"{_GROUP_DICT}.groups", {f"{_GROUP_DICT}.groups": 3}),
    (_E.E65007, f"{_GROUP_DICT}.g_extend", {f"{_GROUP_DICT}.g_extend": 2}),
    (_E.E65007, f"{_GROUP_DICT}.dx_c_ori", {f"{_GROUP_DICT}.dx_c_ori": None}),
    (_E.E60114, "para_dict.padding", {"para_dict.padding": (-1, 1, 0, 0)}),
    (_E.E65007, "filters", {"filters": {"shape": (3, 2, 16, 8)}}),
    (_E.E65007, "filters", {"filters": {"shape": (3, 1, 16, 16)}}),
    (_E.E60114, "filter_sizes", {"filter_sizes": (32, 4, 1, 0), "input_sizes": (2, 16, 3, 3)}),
    (_E.E60023, "para_dict.dilations", {"para_dict.dilations": (1, 2, 1, 1)}),
    (_E.E60011, "para_dict.dilations", {"para_dict.dilations": (1, 1, 256, 1)}),
    (_E.E60108, "filters", {"filters": {"shape": (4, 2, 16, 16)}}),
    (_E.E60011, "para_dict.offset_x", {"para_dict.offset_x": -1}),
    (_E.E65003, "filters", {"filters": {"format": Format.NC1HWC0}}),
    (_E.E65003, "out_backprop", {"out_backprop": {"format": Format.FRACTAL_Z}}),
    (_E.E60002, "input_sizes", {"input_sizes": (2, 15, 3, 6)}),
    (_E.E60002, "out_backprop", {"out_backprop": {"shape": (2, 3, 3, 4, 16)}}),
    (_E.E65007, "filters", {"filters": {"shape": (6, 2, 16, 16)}}),
    (_E.E60038, "res_tensor", {"res_tensor": None}),
    (_E.E65002, "res_tensor", {"res_tensor": {"dtype": FLOAT}}),
    (_E.E65003, "res_tensor", {"res_tensor": {"format": Format.NCHW}}),
    (_E.E65007, "res_tensor", {"res_tensor": {"shape": (2, 1, 3, 7, 16)}}),
)
_DW = dw.gradient("pairs", (2, 16, 3, 8), (32, 4, 1, 3), groups=4, dilations=(1, 1, 1, 2))
_DW_IN_ORDER: tuple[Break, ...] = (
    (_E.E60038, "input_x", {"input_x": None}),
    (_E.E60038, "filter_sizes", {"filter_sizes": None}),
    (_E.E60038, "out_backprop", {"out_backprop": {"dtype": BF16}}),
    (_E.E60005, "input_x", {"input_x": {"dtype": INT8}, "out_backprop": {"dtype": INT8}}),
    (_E.E60005, "para_dict.res_dtype", {"para_dict.res_dtype": "int32"}),
    (_E.E64003, "filter_sizes", {"filter_sizes": (32, 4, 1)}),
    (_E.E64004, "filter_sizes", {"filter_sizes": (32, 4, 1, -3)}),
    (_E.E64003, "para_dict.strides", {"para_dict.strides": (1, 1, 1)}),
    (_E.E64004, "para_dict.strides", {"para_dict.strides": (0, 1)}),
    (_E.E64003, "para_dict.dilations", {"para_dict.dilations": (1, 1)}),
    (_E.E64004, "para_dict.dilations", {"para_dict.dilations": (0, 1, 1, 2)}),
    (_E.E64003, "para_dict.padding", {"para_dict.padding": (0, 0, 0)}),
    (_E.E64003, "out_backprop", {"out_backprop": {"shape": (2, 32, 3, 4)}}),
    (_E.E64003, "input_x", {"input_x": {"shape": (2, 16, 3, 8)}}),
    (_E.E64002, "out_backprop", {"out_backprop": {"shape": (2, 2, 3, 4, 8)}}),
    (_E.E64002, "input_x", {"input_x": {"shape": (2, 1, 3, 8, 8)}}),
    (_E.E64002, "para_dict.groups", {"para_dict.groups": 0}),
    (_E.E64002, "out_backprop", {"out_backprop": {"shape": (2, 1, 3, 4, 16)}}),
    (_E.E64002, "input_x", {"input_x": {"shape": (2, 2, 3, 8, 16)}}),
    (_E.E64002, "out_backprop", {"out_backprop": {"shape": (3, 2, 3, 4, 16)}}),
    (_E.E64001, "filter_sizes", {"filter_sizes": (32, 4, 1, 256)}),
    (_E.E64001, "para_dict.strides", {"para_dict.strides": (64, 1)}),
    (_E.E60023, "para_dict.dilations", {"para_dict.dilations": (2, 1, 1, 2)}),
    (_E.E64001, "para_dict.dilations", {"para_dict.dilations": (1, 1, 256, 2)}),
    (_E.E60108, "para_dict.groups", {"para_dict.groups": 3}),
    (_E.E60024, "out_backprop", {"input_x": {"shape": (2, 1, 4, 8, 16)}}),
    (_E.E60025, "out_backprop", {"para_dict.padding": (0, 0, 1, 0)}),
    (
        _E.E64004,
        "out_backprop",
        {"out_backprop": {"shape": (0, 2, 3, 4, 16)}, "input_x": {"shape": (0, 1, 3, 8, 16)}},
    ),
    (_E.E64004, "para_dict.padding", {"para_dict.padding": (-1, 1, 0, 0)}),
    (
        _E.E64001,
        "out_backprop",
        {
            "out_backprop": {"shape": (2, 2, 200001, 4, 16)},
            "input_x": {"shape": (2, 1, 200001, 8, 16)},
        },
    ),
    (
        _E.E64001,
        "para_dict.padding",
        {"para_dict.padding": (0, 256, 0, 0), "out_backprop": {"shape": (2, 2, 259, 4, 16)}},
    ),
    (_E.E64003, "out_backprop", {"out_backprop": {"format": Format.FRACTAL_Z}}),
    (_E.E64003, "input_x", {"input_x": {"format": Format.NCHW}}),
    (_E.E60038, "res_tensor", {"res_tensor": None}),
    (_E.E60005, "res_tensor", {"res_tensor": {"dtype": FLOAT16}}),
    (_E.E64003, "res_tensor", {"res_tensor": {"format": Format.NC1HWC0}}),
    (_E.E64002, "res_tensor", {"res_tensor": {"shape": (6, 2, 16, 16)}}),
)


def _paths(changes: Mapping[str, Any]) -> set[str]:
    """Arguments and parts of tensors that changes touch."""
    found: set[str] = set()
    for path, value in changes.items():
        found |= {f"{path}.{part}" for part in (value if path in _TENSORS and value else ("",))}
    return found


def _pairs(sample: Sample, in_order: tuple[Break, ...]) -> list[tuple[Sample, Break, Break]]:
    return [
        (sample, first, second)
        for first, second in combinations(in_order, 2)
        if not _paths(first[2]) & _paths(second[2])
    ]


_ALONE = [
    (sample, broken)
    for sample, in_order in ((_DX, _DX_IN_ORDER), (_DW, _DW_IN_ORDER))
    for broken in in_order
]
_ALL_PAIRS = _pairs(_DX, _DX_IN_ORDER) + _pairs(_DW, _DW_IN_ORDER)


def _refusal(sample: Sample) -> tuple[Any, str]:
    with pytest.raises(InvalidArgument) as refusal:
        plan_of(sample)
    return refusal.value.status, refusal.value.parameter


@pytest.mark.parametrize(("sample", "broken"), _ALONE)
def test_each_broken_rule_is_reported(sample: Sample, broken: Break) -> None:
    assert _refusal(changed(sample, "one broken rule", broken[2])) == broken[:2]


@pytest.mark.parametrize(("sample", "first"), _ALONE)
def test_of_two_broken_rules_the_earlier_is_reported(sample: Sample, first: Break) -> None:
    for second in (c for a, b, c in _ALL_PAIRS if a is sample and b is first):
        both = changed(changed(sample, "second", second[2]), f"both, {second}", first[2])

        assert _refusal(both) == first[:2], f"with {second}"


def test_pairs_of_broken_rules_are_many() -> None:
    assert plan_of(_DX).units > 0
    assert plan_of(_DW).units > 0
    assert len(_ALL_PAIRS) > 1200


def _operator(name: str) -> Any:
    return OPERATORS[f"conv2d_backprop_{name}"]


_OPERANDS = {"reference": {FLOAT, FLOAT16, BF16, DOUBLE}, "ascend910b": {FLOAT16, BF16}}
_DX_RESULTS = {
    "ascend910b": {"float16", "float32", "bfloat16"},
    "reference": {"float16", "float32", "bfloat16", "float64"},
}


@pytest.mark.parametrize("profile", _PROFILES)
@pytest.mark.parametrize("dtype", [FLOAT, FLOAT16, BF16, DOUBLE, INT8])
@pytest.mark.parametrize("result", ["float16", "float32", "bfloat16", "float64"])
def test_input_gradient_takes_the_dtypes_of_the_profile(
    profile: str, dtype: DataType, result: str
) -> None:
    sample = dx.gradient("dtypes", *_BLOCK, dtype=dtype, res_dtype=result, profile=profile)

    if dtype not in _OPERANDS.get(profile, {FLOAT16}):
        assert _refusal(sample) == (_E.E60011, "filters")
    elif result not in _DX_RESULTS.get(profile, {"float16", "float32"}):
        assert _refusal(sample) == (_E.E60011, "para_dict.res_dtype")
    else:
        assert plan_of(sample).units > 0


@pytest.mark.parametrize("profile", ["ascend910b", "ascend910", "ascend310", "reference"])
@pytest.mark.parametrize("dtype", [FLOAT, FLOAT16, BF16, DOUBLE, INT8])
@pytest.mark.parametrize("result", ["float16", "float32", "bfloat16", "float64"])
def test_filter_gradient_takes_the_dtypes_of_the_profile(
    profile: str, dtype: DataType, result: str
) -> None:
    sample = dw.gradient("dtypes", *_BLOCK, dtype=dtype, res_dtype=result, profile=profile)

    if dtype not in _OPERANDS.get(profile, {FLOAT16}):
        assert _refusal(sample) == (_E.E60005, "input_x")
    elif result != "float32" and profile != "reference":
        assert _refusal(sample) == (_E.E60005, "para_dict.res_dtype")
    else:
        assert plan_of(sample).units > 0


def test_operators_are_on_the_profiles_of_their_pages() -> None:
    assert set(_operator("input").support) == set(_PROFILES)
    assert set(_operator("filter").support) == set(_PROFILES) - {"ascend310p", "ascend310b"}


def test_a_group_dict_of_one_group_says_no_more_than_none() -> None:
    with_one, without = (dx.gradient("one", *_BLOCK, groups=groups) for groups in (1, None))

    assert plan_of(with_one) == plan_of(without)


@pytest.mark.parametrize("key", GroupDict.__dataclass_fields__)
@pytest.mark.parametrize("value", [None, 0])
def test_every_key_of_group_dict_is_compared(key: str, value: object) -> None:
    status, parameter = _refusal(changed(dx.BASE, "key", {f"{_GROUP_DICT}.{key}": value}))

    assert parameter == f"{_GROUP_DICT}.{key}"
    assert status == (_E.E60108 if (key, value) == ("groups", 0) else _E.E65007)


@pytest.mark.parametrize(
    ("spelling", "dtype"),
    [(None, FLOAT16), ("float16", FLOAT16), ("float32", FLOAT), ("bfloat16", BF16)],
)
def test_inferred_input_gradient_has_the_dtype_of_res_dtype(
    spelling: str | None, dtype: DataType
) -> None:
    arguments = replace(
        dx.gradient("dtypes", *_BLOCK, res_dtype=spelling).arguments(), res_tensor=None
    )

    tensor = _operator("input").infer_outputs(arguments)["res_tensor"]

    assert (tensor.shape, tensor.dtype, tensor.format) == ((1, 1, 3, 3, 16), dtype, Format.NC1HWC0)


def test_inferred_filter_gradient_is_float_in_fractal_z() -> None:
    sample = dw.gradient("dtypes", (2, 33, 5, 6), (33, 1, 3, 3), groups=33)
    arguments = replace(sample.arguments(), res_tensor=None)

    tensor = _operator("filter").infer_outputs(arguments)["res_tensor"]

    assert (tensor.shape, tensor.dtype, tensor.format) == ((27, 1, 16, 16), FLOAT, Format.FRACTAL_Z)


@pytest.mark.parametrize("arguments", [Conv2dBackpropInput(), Conv2dBackpropFilter()])
def test_nothing_is_inferred_from_nothing(arguments: Any) -> None:
    by_schema = {operator.schema: operator for operator in OPERATORS.values()}

    assert by_schema[type(arguments)].infer_outputs(arguments) == {}
