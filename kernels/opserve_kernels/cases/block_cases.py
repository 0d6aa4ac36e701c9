"""Common parts of the cases of operators on blocks, for every gradient."""

from collections.abc import Collection, Iterator, Mapping
from math import prod
from typing import cast

from opserve_kernels.cases.case import Case, Value
from opserve_kernels.formats import superblocks
from opserve_kernels.operator import Support

Row = tuple[int, ...]
FEATURES = (
    *("groups", "depthwise", "limit", "asymmetric padding"),
    *("format ND", "format NC1HWC0", "format FRACTAL_Z"),
)
_SPELLED = "float64"  # a res_dtype


def members_of(case: Case) -> Mapping[str, Value]:
    """The members of para_dict."""
    return cast("Mapping[str, Value]", case.arguments.get("para_dict", {}))


def steps_of(case: Case) -> tuple[Row, Row, Row]:
    """Stride, padding and dilation."""
    members = cast("Mapping[str, Row]", case.arguments["para_dict"])
    return members["strides"], members["padding"], members["dilations"]


def groups_of(case: Case) -> tuple[int, int]:
    """Groups, and the input channels of one of them."""
    members = members_of(case)
    held = cast("Mapping[str, Value]", members.get("group_dict", members))
    return cast("int", held.get("groups", 1)), cast("Row", case.arguments["filter_sizes"])[1]


def products_of(case: Case) -> int:
    """Products of whole superblocks, including those off their diagonal."""
    weight, (groups, _) = cast("Row", case.arguments["filter_sizes"]), groups_of(case)
    batch, _, high, wide, _ = case.tensors["out_backprop"].shape
    blocks, taps = superblocks(weight, groups), prod(weight[2:])
    dense = blocks.count * blocks.input_blocks * blocks.output_blocks * blocks.c0 * blocks.c0
    return batch * high * wide * taps * dense


def is_supported(
    case: Case,
    support: Mapping[str, Support],
    results: Mapping[str, tuple[str, ...]],
    default: str,
) -> bool:
    """Whether the profile has the operands' dtype and supports the result's.

    Args:
        case: The call.
        support: Support of the operator.
        results: Values of res_dtype, by profile.
        default: Dtype of the result without res_dtype.
    """
    dtypes = support[case.profile].dtypes
    has_operands = all(tensor.dtype in dtypes for tensor in case.inputs.values())
    return has_operands and members_of(case).get("res_dtype", default) in results[case.profile]


def reference_arguments(case: Case, _: Collection[str]) -> Mapping[str, Value]:
    """The arguments with a result in DOUBLE."""
    return {**case.arguments, "para_dict": {**members_of(case), "res_dtype": _SPELLED}}


def tried(case: Case) -> Iterator[str]:
    """Features that the arguments decide."""
    if case.arguments.get("raw"):
        yield "raw"
