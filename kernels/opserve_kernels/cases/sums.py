"""What the sums of a case are: how long, what they pass through, what they cost."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import cast

from opserve_kernels.cases.case import Case, Value
from opserve_kernels.cases.sizing import GRADIENTS, sums_exactly
from opserve_kernels.formats import superblocks
from opserve_kernels.number_formats import promote
from opserve_kernels.operators.convolution_backward.contract import PROFILE_RULES, Computation
from opserve_kernels.profiles import PROFILES
from opserve_kernels.tensor import DataType

_NAMES: Mapping[DataType, str] = {
    DataType.FLOAT: "float32",
    DataType.FLOAT16: "float16",
    DataType.BF16: "bfloat16",
    DataType.DOUBLE: "float64",
}
"""As NumPy and ml_dtypes have them."""
_IMAGE_AXES = ("n", "c", "d", "h", "w")
_WEIGHT_AXES = ("k", "c", "kd", "kh", "kw")
_SPATIAL = 3
_16_BITS = (DataType.FLOAT16, DataType.BF16)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sum:
    """The sums that an output of a case consists of.

    Attributes:
        output: Name of the tensor.
        terms: Products in the longest sum, K.
        accumulator: The dtype that sums are kept in, as NumPy spells it.
        roundings: The dtypes that a complete sum passes through before its own, in order.
        saturates: Whether a result beyond FLOAT16's range becomes its greatest value.
        axes: What each axis means: "n", "c", "d", "h", "w"; of a weight "k", "c", "kd", "kh", "kw".
        multiply_adds: Products in all sums together.
        is_exact: Whether every order of summing gives the same bits, rounded once to the output's
            dtype: integers that pass through no narrower one.
    """

    output: str
    terms: int
    accumulator: str
    roundings: tuple[str, ...]
    saturates: bool
    axes: tuple[str, ...]
    multiply_adds: int
    is_exact: bool


def sums_of(case: Case) -> tuple[Sum, ...]:
    """The outputs that a case writes; the call must be one that succeeds."""
    match case.operator:
        case "convolution_backward":
            return _convolution(case)
        case "im2col_backward":
            return _fold(case)
        case "conv2d_backprop_input" | "conv2d_backprop_filter":
            return _blocks(case)
        case _:
            return _deconvolution(case)


def multiply_adds(case: Case) -> int:
    """Products of all outputs; 0 for a call that must be refused."""
    return 0 if case.is_refused else sum(one.multiply_adds for one in sums_of(case))


def computation_of(case: Case) -> Computation:
    """How a call of convolution_backward is computed."""
    dtypes = [case.tensors[name].dtype for name in ("grad_output", "input", "weight")]
    promoted = promote(promote(dtypes[0], dtypes[1]), dtypes[2])
    kind = cast("int", case.arguments["cube_math_type"])
    computation = PROFILE_RULES[case.profile].computations[promoted][kind]
    assert computation is not None
    return computation


def _sum(
    case: Case,
    output: str,
    axes: tuple[str, ...],
    *,
    terms: int,
    multiply_adds: int,
    passed: DataType = DataType.FLOAT,
) -> Sum:
    """With what follows from profile and dtypes; `passed` is what a sum is rounded to first."""
    profile, dtype = PROFILES[case.profile], case.tensors[output].dtype
    narrowed = not profile.exact and passed in _16_BITS and passed != dtype
    is_half = DataType.FLOAT16 in {dtype, passed if narrowed else dtype}
    clamped = case.operator == "conv2d_backprop_input" and dtype == DataType.FLOAT16
    return Sum(
        output=output,
        terms=terms,
        accumulator="float64" if profile.exact else "float32",
        roundings=(_NAMES[passed],) if narrowed else (),
        saturates=clamped or (profile.saturates and is_half),
        axes=axes,
        multiply_adds=multiply_adds,
        is_exact=not narrowed
        and sums_exactly(case.inputs, terms, gradient=GRADIENTS[case.operator]),
    )


def _convolution(case: Case) -> tuple[Sum, ...]:
    dy, x, w = (case.tensors[name] for name in ("grad_output", "input", "weight"))
    groups = cast("int", case.arguments["groups"])
    transposed, taps = bool(case.arguments["transposed"]), prod(w.shape[2:])
    places = prod((x if transposed else dy).shape[2:]) * x.shape[0]
    positions = prod(dy.shape[2:]) * x.shape[0]
    channels = w.shape[1] if transposed else w.shape[0] // groups
    products, spatial = places * prod(w.shape), len(x.shape) - 2
    image_axes = (*_IMAGE_AXES[:2], *_IMAGE_AXES[2 + _SPATIAL - spatial :])
    weight_axes = (*_WEIGHT_AXES[:2], *_WEIGHT_AXES[2 + _SPATIAL - spatial :])
    found = {
        "grad_input": (image_axes, channels * taps, products),
        "grad_weight": (weight_axes, places, products),
        "grad_bias": (("c",), positions, prod(dy.shape)),
    }
    return tuple(
        _sum(
            case,
            name,
            found[name][0],
            terms=found[name][1],
            multiply_adds=found[name][2],
            passed=_passed(case, name, groups),
        )
        for name in case.written
    )


def _passed(case: Case, name: str, groups: int) -> DataType:
    """What a sum is rounded to before it takes its own dtype; FLOAT is nothing."""
    computed = computation_of(case).dtype
    if name == "grad_input":
        return computed
    if name == "grad_bias":
        return case.tensors["grad_output"].dtype
    narrow = PROFILE_RULES[case.profile].narrows_grouped_weight and computed in _16_BITS
    is_float = case.tensors[name].dtype == DataType.FLOAT
    return DataType.FLOAT16 if narrow and groups > 1 and is_float else DataType.FLOAT


def _fold(case: Case) -> tuple[Sum, ...]:
    columns, image = case.tensors["grad_output"], case.tensors["out"]
    taps = prod(cast("tuple[int, ...]", case.arguments["kernel_size"]))
    axes = ("n", "c", "h", "w")[-len(image.shape) :]
    products = prod(columns.shape)
    return (_sum(case, "out", axes, terms=taps, multiply_adds=products, passed=columns.dtype),)


def _blocks(case: Case) -> tuple[Sum, ...]:
    """Whole superblocks are multiplied, and off their diagonal too."""
    members = cast("Mapping[str, Value]", case.arguments.get("para_dict", {}))
    weight = cast("tuple[int, ...]", case.arguments["filter_sizes"])
    given = cast("Mapping[str, Value]", members.get("group_dict", members))
    groups = cast("int", given.get("groups", 1))
    batch, _, high, wide, _ = case.tensors["out_backprop"].shape
    blocks, taps = superblocks(weight, groups), prod(weight[2:])
    dense = blocks.count * blocks.input_blocks * blocks.output_blocks * blocks.c0 * blocks.c0
    products = batch * high * wide * taps * dense
    if case.operator == "conv2d_backprop_input":
        terms = weight[0] // groups * taps
        axes: tuple[str, ...] = ("n", "c1", "h", "w", "c0")
    else:
        axes, terms = ("gc1k", "n1", "n0", "c0"), batch * high * wide
    return (_sum(case, "res_tensor", axes, terms=terms, multiply_adds=products),)


def _deconvolution(case: Case) -> tuple[Sum, ...]:
    places = prod(case.tensors["x_data"].shape[:3])
    products = places * prod(case.tensors["dw_data"].shape)
    axes = ("g", "k", "c")
    return (_sum(case, "dw_data", axes, terms=places, multiply_adds=products),)
