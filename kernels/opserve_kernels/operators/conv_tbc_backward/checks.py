"""The rules of aclnnConvTbcBackward, in the order of the vendor's source.

Rules that only the page states come last, and may be warnings.
"""

from dataclasses import dataclass

from opserve_kernels.cube_math import check_cube_math_type, promoted
from opserve_kernels.errors import invalid_argument
from opserve_kernels.operators.conv_tbc_backward.contract import (
    CUBE_MATH_TYPES,
    GRADIENT_OF,
    IMAGES,
    OPERANDS,
    PAD,
    PRODUCTS,
    RANK,
    SUPPORT,
    TENSORS,
)
from opserve_kernels.operators.conv_tbc_backward.schema import ConvTbcBackward
from opserve_kernels.page_rules import PageRules
from opserve_kernels.rules import check_dtype, check_range, required
from opserve_kernels.tensor import DataType, Format, Tensor

_KEEP_DTYPE, _USE_FP16, _USE_HF32 = 0, 2, 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """The complete arguments of a call."""

    tensors: dict[str, Tensor]
    pad: int
    cube_math_type: int

    @property
    def promoted(self) -> DataType:
        """The dtype that holds the three operands."""
        return promoted(*(self.tensors[name].dtype for name in OPERANDS))

    @property
    def is_empty(self) -> bool:
        """Whether there are no products."""
        return 0 in {self.tensors[name].element_count for name in ("input", "weight")}


def check(arguments: ConvTbcBackward, profile: str, page: PageRules) -> Call:
    """Rejects arguments that break a rule of the profile (161001, 161002)."""
    call = Call(
        tensors={name: required(name, getattr(arguments, name)) for name in TENSORS},
        pad=required("pad", arguments.pad),
        cube_math_type=required("cube_math_type", arguments.cube_math_type),
    )
    for name, tensor in call.tensors.items():
        check_dtype(name, tensor, support=SUPPORT, profile=profile)
    _check_formats(call)
    if call.tensors["self"].element_count == 0:
        raise _shape_error("self", call, "at least one position, entry and channel")
    _check_ranks(call)
    _check_shapes(call)
    check_cube_math_type(
        call.cube_math_type, call.promoted, CUBE_MATH_TYPES, profile, tuple(SUPPORT)
    )
    if profile in PRODUCTS:
        # The source copies a gradient of input's dtype into a tensor of any other.
        for gradient, operand in GRADIENT_OF.items():
            _check_same_dtype(gradient, operand, call)
    _check_page(call, profile, page)
    return call


def _check_formats(call: Call) -> None:
    for name, tensor in call.tensors.items():
        formats = (Format.ND, Format.NCL) if name in IMAGES else (Format.ND,)
        if tensor.format not in formats:
            raise invalid_argument(
                name, given=f"format {tensor.format}", allowed=f"format {' or '.join(formats)}"
            )


def _check_ranks(call: Call) -> None:
    ranks = {name: RANK if name in IMAGES else 1 for name in TENSORS}
    for name in (*OPERANDS, "bias", "grad_bias", "grad_input", "grad_weight"):
        if call.tensors[name].rank != ranks[name]:
            raise _shape_error(name, call, f"{ranks[name]} dimension{'s' * (ranks[name] > 1)}")


def _check_shapes(call: Call) -> None:
    (time, batch, inputs), (taps, *channels) = (
        call.tensors[name].shape for name in ("input", "weight")
    )
    if channels[0] != inputs:
        raise _shape_error("weight", call, f"{inputs} channels in dimension 1, as input has")
    if call.tensors["bias"].shape != (channels[1],):
        raise _shape_error("bias", call, f"shape [{channels[1]}], weight's dimension 2")
    check_range("pad", call.pad, least=PAD.least)
    positions = time + 2 * call.pad + 1 - taps
    if positions < 0:
        raise _shape_error("weight", call, f"at most {time + 2 * call.pad + 1} taps")
    output = (positions, batch, channels[1])
    if call.tensors["self"].shape != output:
        raise _shape_error("self", call, f"shape {list(output)}")
    for gradient, tensor in GRADIENT_OF.items():
        shape = call.tensors[tensor].shape
        if call.tensors[gradient].shape != shape:
            raise _shape_error(gradient, call, f"shape {list(shape)}")


def _check_page(call: Call, profile: str, page: PageRules) -> None:
    for name in ("input", "weight", "bias"):
        with page.rule("dtype is not that of self"):
            _check_same_dtype(name, "self", call)
    with page.rule(f"above {PAD.most}"):
        check_range(PAD.parameter, call.pad, least=PAD.least, most=PAD.most)
    for kind, dtype in (
        (_KEEP_DTYPE, DataType.FLOAT),
        (_USE_HF32, DataType.FLOAT),
        (_USE_FP16, DataType.BF16),
        (_USE_HF32, DataType.FLOAT16),
    ):
        with page.rule(f"{kind} with {dtype}"):
            if (call.cube_math_type, call.promoted) == (kind, dtype):
                raise invalid_argument(
                    CUBE_MATH_TYPES.parameter,
                    given=f"{kind} for a computation in {dtype}",
                    allowed=f"another cube_math_type for {dtype} on {profile}",
                )


def _check_same_dtype(name: str, other: str, call: Call) -> None:
    dtype, wanted = call.tensors[name].dtype, call.tensors[other].dtype
    if dtype != wanted:
        raise invalid_argument(
            name, given=f"dtype {dtype}", allowed=f"dtype {wanted}, that of {other}"
        )


def _shape_error(name: str, call: Call, allowed: str) -> Exception:
    return invalid_argument(name, given=f"shape {list(call.tensors[name].shape)}", allowed=allowed)
