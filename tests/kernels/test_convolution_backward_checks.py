"""Arguments that aclnnConvolutionBackward accepts and refuses on each profile, in order."""

from dataclasses import replace
from itertools import combinations
from typing import Any

import pytest

from kernels.execution import plan_of
from kernels.samples.convolution_backward import convolution
from kernels.samples.convolution_backward_errors import BASE, BASE_3D, ERROR_SAMPLES, tensor_of
from kernels.samples.convolution_backward_limits import (
    DOCUMENTED,
    DocumentedLimit,
    call_with,
    thinned,
)
from kernels.samples.sample import ErrorSample, Sample
from opserve_kernels.errors import InvalidArgument
from opserve_kernels.operator import DocumentedRules, PlanOptions
from opserve_kernels.operators.convolution_backward.operator import OPERATOR
from opserve_kernels.status import Status
from opserve_kernels.tensor import DataType, Format

FLOAT, FLOAT16, BF16 = DataType.FLOAT, DataType.FLOAT16, DataType.BF16
DOUBLE = DataType.DOUBLE
INVALID = Status.ACLNN_ERR_PARAM_INVALID
PROFILES = ("ascend910b", "ascend910", "ascend310p", "reference")
OLDER = ("ascend910", "ascend310p")
WARN = PlanOptions(documented_rules=DocumentedRules.WARN)

Place = tuple[DocumentedLimit, int, int]
_PLACES = [(limit, *place) for limit in DOCUMENTED for place in limit.places]
Change = tuple[str, dict[str, Any]]
_RULES = {(rule.parameter, rule.broken): rule for rule in OPERATOR.rules}
_HOLDING = [
    (error, profile)
    for error in ERROR_SAMPLES
    for profile in _RULES[error.parameter, error.rule].profiles or PROFILES
]

# One broken rule each of a 3-D call, in the order in which they must be found.
_IN_ORDER: tuple[Change, ...] = (
    ("input", {"input": None}),
    ("stride", {"stride": None}),
    ("cube_math_type", {"cube_math_type": None}),
    ("output_mask", {"output_mask": (True,)}),
    ("grad_input", {"grad_input": None}),
    ("grad_output", {"grad_output": tensor_of(BASE_3D, "grad_output", dtype=DataType.INT8)}),
    ("grad_bias", {"grad_bias": tensor_of(BASE_3D, "grad_bias", dtype=DataType.INT8)}),
    ("grad_output", {"grad_output": tensor_of(BASE_3D, "grad_output", format=Format.NDHWC)}),
    ("grad_weight", {"grad_weight": tensor_of(BASE_3D, "grad_weight", format=Format.NDHWC)}),
    ("grad_bias", {"grad_bias": tensor_of(BASE_3D, "grad_bias", format=Format.NCL)}),
    ("stride", {"stride": (0, 1, 1)}),
    ("padding", {"padding": (-1, 0, 0)}),
    ("dilation", {"dilation": (1, 0, 1)}),
    ("output_padding", {"output_padding": (0, 0, 1)}),
    ("groups", {"groups": 0}),
    ("cube_math_type", {"cube_math_type": 9}),
    (
        "grad_output",
        {"grad_output": tensor_of(BASE_3D, "grad_output", shape=(2, 6, 3), format=Format.NCL)},
    ),
    ("grad_input", {"grad_input": tensor_of(BASE_3D, "grad_input", shape=(2, 4, 4, 5, 5))}),
    ("grad_weight", {"grad_weight": tensor_of(BASE_3D, "grad_weight", shape=(6, 4, 2, 3, 1))}),
    ("grad_bias", {"grad_bias": tensor_of(BASE_3D, "grad_bias", shape=(4,))}),
    ("stride", {"stride": (1, 1)}),
    ("dilation", {"dilation": (1, 1)}),
    ("padding", {"padding": (0,) * 4}),
    ("output_padding", {"output_padding": (0,) * 4}),
    ("groups", {"groups": 2}),
    ("input", {"dilation": (4, 1, 1)}),
    ("grad_output", {"stride": (2, 2, 2)}),
    ("bias_sizes", {"bias_sizes": (5,)}),
)
_TRANSPOSED_2D = convolution(
    "transposed", (2, 3, 4, 5), (3, 4, 3, 2), stride=(2, 2), output_padding=(1, 0), transposed=True
)
# The same of a 2-D call on ascend910 and ascend310p.
_BASE_2D = convolution(
    "2-D", (2, 4, 6, 7), (6, 4, 3, 2), dtypes=(FLOAT16, FLOAT16, FLOAT), cube_math_type=1
)
_IN_ORDER_2D: tuple[Change, ...] = (
    ("weight", {"weight": None}),
    ("output_padding", {"output_padding": None}),
    ("output_mask", {"output_mask": (True,) * 4}),
    ("grad_weight", {"grad_weight": None}),
    ("grad_output", {"grad_output": tensor_of(_BASE_2D, "grad_output", dtype=BF16)}),
    ("grad_bias", {"grad_bias": tensor_of(_BASE_2D, "grad_bias", dtype=BF16)}),
    ("grad_output", {"grad_output": tensor_of(_BASE_2D, "grad_output", format=Format.NHWC)}),
    ("grad_input", {"grad_input": tensor_of(_BASE_2D, "grad_input", format=Format.NHWC)}),
    ("stride", {"stride": (0, 1)}),
    ("padding", {"padding": (-1, 0)}),
    ("dilation", {"dilation": (1, 0)}),
    ("output_padding", {"output_padding": (0, 1)}),
    ("groups", {"groups": 0}),
    ("cube_math_type", {"cube_math_type": 9}),
    ("cube_math_type", {"cube_math_type": 3}),
    (
        "grad_output",
        {"grad_output": tensor_of(_BASE_2D, "grad_output", shape=(2, 6, 3), format=Format.NCL)},
    ),
    ("grad_output", {"grad_output": tensor_of(_BASE_2D, "grad_output", shape=(0, 6, 4, 6))}),
    ("grad_input", {"grad_input": tensor_of(_BASE_2D, "grad_input", shape=(2, 4, 6, 6))}),
    ("grad_bias", {"grad_bias": tensor_of(_BASE_2D, "grad_bias", shape=(4,))}),
    ("stride", {"stride": (1, 1, 1)}),
    ("dilation", {"dilation": (1,)}),
    ("padding", {"padding": (0,) * 3}),
    ("output_padding", {"output_padding": (0,) * 3}),
    ("groups", {"groups": 2}),
    ("input", {"dilation": (3, 1)}),
    ("grad_output", {"stride": (2, 2)}),
    ("bias_sizes", {"bias_sizes": (5,)}),
)


def _pairs(changes: tuple[Change, ...]) -> list[tuple[Change, Change]]:
    both = combinations(changes, 2)
    return [(first, second) for first, second in both if not first[1].keys() & second[1].keys()]


_PAIRS, _PAIRS_2D = _pairs(_IN_ORDER), _pairs(_IN_ORDER_2D)


def refusal_of(sample: Sample) -> tuple[Status, str]:
    with pytest.raises(InvalidArgument) as refusal:
        plan_of(sample)
    status = refusal.value.status
    assert isinstance(status, Status)
    return status, refusal.value.parameter


def on(profile: str, sample: Sample) -> Sample:
    return replace(sample, profile=profile)


@pytest.mark.parametrize(
    ("error", "profile"), _HOLDING, ids=lambda given: getattr(given, "name", given)
)
def test_rule_holds_on_every_profile_it_names_and_else_on_all(
    error: ErrorSample, profile: str
) -> None:
    assert refusal_of(on(profile, error.sample)) == (error.status, error.parameter)


def test_words_of_a_rule_name_the_profiles_where_it_holds() -> None:
    for rule in OPERATOR.rules:
        named = rule.broken.partition(" on ascend")[1:]
        words = "".join(named).replace(" on ", "").split(" and ") if any(named) else []
        assert tuple(words) == rule.profiles, rule.broken


@pytest.mark.parametrize("first", _IN_ORDER)
def test_of_two_broken_rules_the_earlier_is_reported(first: Change) -> None:
    for second in (second for one, second in _PAIRS if one is first):
        broken = BASE_3D.but(f"two broken rules, {second}", **second[1], **first[1])

        assert refusal_of(broken)[1] == first[0], f"with {second}"


@pytest.mark.parametrize("profile", OLDER)
@pytest.mark.parametrize("first", _IN_ORDER_2D)
def test_of_two_broken_rules_the_earlier_is_reported_on_older_profiles(
    first: Change, profile: str
) -> None:
    for second in (second for one, second in _PAIRS_2D if one is first):
        broken = _BASE_2D.but(f"two broken rules, {second}", **second[1], **first[1])

        assert refusal_of(on(profile, broken))[1] == first[0], f"with {second}"


@pytest.mark.parametrize("sizes", [(3, 4, 10, 10), (2, 4, 10, 17), (2, 4, 1, 1)])
def test_output_padding_is_found_before_the_sizes_that_follow_from_it(
    sizes: tuple[int, ...],
) -> None:
    broken = _TRANSPOSED_2D.but(
        "two broken rules",
        output_padding=(2, 0),
        grad_output=tensor_of(_TRANSPOSED_2D, "grad_output", shape=sizes),
    )

    assert refusal_of(broken) == (INVALID, "output_padding")
    assert refusal_of(broken.but("one", output_padding=(1, 0))) == (INVALID, "grad_output")


@pytest.mark.parametrize("profile", OLDER)
@pytest.mark.parametrize(
    "change", [c for c in _IN_ORDER if c[0] not in {"grad_bias", "bias_sizes"}]
)
def test_3d_is_refused_on_older_profiles_after_the_shapes(change: Change, profile: str) -> None:
    assert refusal_of(on(profile, BASE_3D)) == (INVALID, "input")
    assert refusal_of(on(profile, BASE_3D.but("broken too", **change[1])))[1] == change[0]


def test_pairs_of_broken_rules_are_many() -> None:
    assert len(_PAIRS) > 300
    assert len(_PAIRS_2D) > 280


def test_documented_limits_are_those_of_the_operator() -> None:
    cube_math_type, *limits = OPERATOR.limits

    documented = [(one.parameter, one.where, one.least, one.most) for one in DOCUMENTED]
    assert [(one.parameter, one.where, one.least, one.most) for one in limits] == documented
    assert all(limit.profiles == ("ascend910b",) for limit in limits)
    assert (cube_math_type.least, cube_math_type.most, cube_math_type.profiles) == (0, 3, ())


@pytest.mark.parametrize(("limit", "rank", "axis"), _PLACES)
def test_values_at_a_documented_limit_are_accepted(
    limit: DocumentedLimit, rank: int, axis: int
) -> None:
    for value in (limit.least, limit.most):
        assert plan_of(call_with(limit.parameter, rank, axis, value)).units > 0


@pytest.mark.parametrize("profile", ["ascend910b", "reference"])
@pytest.mark.parametrize(("limit", "rank", "axis"), _PLACES)
def test_value_below_a_documented_limit_is_refused_on_every_profile(
    limit: DocumentedLimit, rank: int, axis: int, profile: str
) -> None:
    below = call_with(limit.parameter, rank, axis, limit.least - 1)

    assert refusal_of(on(profile, below)) == (INVALID, limit.parameter)


@pytest.mark.parametrize(("limit", "rank", "axis"), _PLACES)
def test_value_above_a_documented_limit_is_refused_on_910b_only(
    limit: DocumentedLimit, rank: int, axis: int
) -> None:
    above = call_with(limit.parameter, rank, axis, limit.most + 1)

    assert refusal_of(above) == (INVALID, limit.parameter)
    for profile in PROFILES[1:] if rank < 5 else ("reference",):
        assert plan_of(on(profile, above)).units > 0


@pytest.mark.parametrize("profile", PROFILES)
def test_tensors_are_refused_only_where_no_device_holds_them(profile: str) -> None:
    """Strides of 0 make tensors of any size out of few bytes."""
    half = (FLOAT16,) * 3
    large = convolution("large", (1 << 12, 1, 1 << 26), (2, 1, 1), dtypes=half)
    vast = convolution("vast", (1 << 30, 1, 1 << 30, 1 << 30), (2, 1, 1, 1), dtypes=half)
    refused = refusal_of(on(profile, thinned(vast)))

    assert plan_of(on(profile, thinned(large))).units > 0
    assert refused == (Status.ACL_ERROR_RT_MEMORY_ALLOCATION, "call")


@pytest.mark.parametrize("place", range(4))
def test_each_of_four_paddings_has_the_limit_of_padding(place: int) -> None:
    padding = tuple(255 * int(place == side) for side in range(4))
    sample = convolution("padding", (1, 1, 4, 4), (1, 1, 2, 2), padding=padding)
    beyond = tuple(256 * int(place == side) for side in range(4))

    assert plan_of(sample).units > 0
    assert refusal_of(
        convolution("padding", (1, 1, 4, 4), (1, 1, 2, 2), padding=beyond)
    ) == (INVALID, "padding")  # fmt: skip


@pytest.mark.parametrize(
    ("weight", "changes"),
    [
        ((1, 1, 256, 1, 1), {}),
        ((1, 1, 1, 1, 256), {}),
        ((1, 1, 1, 1, 1), {"stride": (1, 64, 64)}),
        ((1, 1, 2, 2, 2), {"dilation": (256, 1, 256)}),
        ((1, 1, 600, 600, 600), {"padding": (256, 256, 256)}),
        ((65536, 1, 1, 1, 1), {"groups": 65536}),
    ],
)
def test_limits_do_not_hold_for_transposed_convolutions(
    weight: tuple[int, ...], changes: dict[str, Any]
) -> None:
    input_ = (1, weight[0], 3, 3, 3)

    assert plan_of(convolution("free", input_, weight, transposed=True, **changes)).units > 0


_OFFERED: tuple[tuple[str, tuple[DataType, ...], set[int]], ...] = (
    ("ascend910b", (FLOAT,) * 3, {0, 1, 2, 3}),
    ("ascend910b", (FLOAT16,) * 3, {0, 1, 2, 3}),
    ("ascend910b", (BF16,) * 3, {0, 1, 2, 3}),
    ("ascend910b", (FLOAT16, BF16, FLOAT16), {0, 1, 2, 3}),
    *((profile, (FLOAT,) * 3, {1, 2}) for profile in OLDER),
    *((profile, (FLOAT16,) * 3, {0, 1, 2, 3}) for profile in OLDER),
    *((profile, (FLOAT16, FLOAT, FLOAT16), {1, 2}) for profile in OLDER),
    *(("reference", (dtype,) * 3, {0, 1, 2, 3}) for dtype in (FLOAT, FLOAT16, BF16, DOUBLE)),
    ("reference", (DOUBLE, BF16, FLOAT), {0, 1, 2, 3}),
)


@pytest.mark.parametrize("cube_math_type", range(4))
@pytest.mark.parametrize(("profile", "dtypes", "offered"), _OFFERED)
def test_cube_math_type_is_accepted_where_the_profile_computes_so(
    profile: str, dtypes: tuple[DataType, ...], offered: set[int], cube_math_type: int
) -> None:
    scalars = {"cube_math_type": cube_math_type, "profile": profile}
    sample = convolution("cube", (2, 4, 6, 7), (6, 4, 3, 2), dtypes=dtypes, **scalars)

    if cube_math_type in offered:
        assert plan_of(sample).units > 0
    else:
        assert refusal_of(sample) == (INVALID, "cube_math_type")


@pytest.mark.parametrize("cube_math_type", range(4))
@pytest.mark.parametrize(
    ("profile", "dtype"),
    [("ascend910b", DOUBLE), *((profile, dtype) for profile in OLDER for dtype in (BF16, DOUBLE))],
)
def test_dtype_that_the_profile_lacks_is_refused_for_every_cube_math_type(
    profile: str, dtype: DataType, cube_math_type: int
) -> None:
    scalars = {"cube_math_type": cube_math_type, "profile": profile}
    sample = convolution("dtype", (2, 4, 6, 7), (6, 4, 3, 2), dtypes=(dtype,) * 3, **scalars)

    assert refusal_of(sample) == (INVALID, "grad_output")


_EMPTY_HEIGHT = convolution("empty H", (2, 3, 0, 7), (4, 3, 1, 1), padding=(1, 0))
_GROUPS_128: dict[str, Any] = {"groups": 128, "outs": (BF16, FLOAT, BF16)}
_IN_3D = ((1, 128, 3, 3, 3), (128, 1, 2, 2, 2))


@pytest.mark.parametrize(
    ("parameter", "sample"),
    [
        ("grad_output", convolution("1-D as NCHW", (3, 2, 9), (4, 2, 3), format=Format.NCHW)),
        (
            "input",
            on("ascend910", _EMPTY_HEIGHT.but("empty H on 910", cube_math_type=1)),
        ),
        ("stride", BASE_3D.but("3-D stride 0", stride=(0, 1, 1))),
        ("padding", BASE_3D.but("3-D padding -1", padding=(0, -1, 0))),
        ("dilation", BASE_3D.but("3-D dilation 0", dilation=(1, 1, 0))),
        ("grad_output", convolution("NHWC", (2, 4, 6, 7), (6, 4, 3, 2), format=Format.NHWC)),
        ("grad_output", convolution("NDHWC", *_IN_3D, groups=128, format=Format.NDHWC)),
        ("grad_weight", convolution("BF16", *_IN_3D, dtypes=(BF16,) * 3, **_GROUPS_128)),
        ("grad_weight", convolution("USE_FP16", *_IN_3D, cube_math_type=2, **_GROUPS_128)),
        ("groups", BASE.but("groups 0", groups=0)),
        ("groups", convolution("17 of 2 groups", (2, 4, 6, 7), (17, 2, 3, 2), groups=2)),
        ("input", BASE.but("rank 2", input=tensor_of(BASE, "input", shape=(2, 4)))),
        (
            "weight",
            BASE.but(
                "ranks", weight=tensor_of(BASE, "weight", shape=(6, 4, 3), format=Format.NCL)
            ),
        ),
        (
            "bias_sizes",
            convolution("empty", (0, 4, 6, 7), (6, 4, 3, 2)).but("no sizes", bias_sizes=None),
        ),
        (
            "grad_output",
            BASE.but("empty", grad_output=tensor_of(BASE, "grad_output", shape=(0, 6, 4, 6))),
        ),
        ("weight", convolution("weight N 0", (2, 4, 6, 7), (0, 4, 3, 2))),
    ],
    ids=lambda given: getattr(given, "name", given),
)  # fmt: skip
def test_calls_that_the_vendors_tests_refuse_are_refused(parameter: str, sample: Sample) -> None:
    assert refusal_of(sample) == (INVALID, parameter)


@pytest.mark.parametrize("profile", PROFILES)
def test_bias_sizes_may_be_missing_where_input_is_not_empty(profile: str) -> None:
    assert plan_of(on(profile, BASE.but("no sizes", bias_sizes=None))).units > 0


@pytest.mark.parametrize("dtype", [BF16, FLOAT16])
def test_depthwise_convolution_in_3d_is_accepted_in_16_bits(dtype: DataType) -> None:
    assert plan_of(convolution("depthwise", *_IN_3D, groups=128, dtypes=(dtype,) * 3)).units > 0


@pytest.mark.parametrize("profile", OLDER)
def test_grad_bias_may_have_any_format_in_the_source_for_older_profiles(profile: str) -> None:
    bias = tensor_of(BASE, "grad_bias", format=Format.NCHW)
    call = on(profile, BASE.but("bias", grad_bias=bias))

    assert plan_of(call, WARN).warnings[0].parameter == "grad_bias"
    assert refusal_of(call) == (INVALID, "grad_bias")


@pytest.mark.parametrize(
    ("dtype", "accepted"), [(FLOAT16, True), (FLOAT, False), (DataType.BOOL, False)]
)
def test_masked_gradient_is_checked_where_it_is_given(dtype: DataType, *, accepted: bool) -> None:
    masked = BASE_3D.but(
        "masked",
        output_mask=(False, True, True),
        grad_input=tensor_of(BASE_3D, "grad_input", dtype=dtype),
    )

    if accepted:
        assert plan_of(masked).units > 0
    else:
        assert refusal_of(masked) == (INVALID, "grad_input")
