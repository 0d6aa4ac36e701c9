"""Fills of a call's inputs: integers so small, and so few, that sums do not depend on order."""

from collections.abc import Mapping
from dataclasses import replace

from opserve_kernels.cases.case import Fill, Kind, TensorCase
from opserve_kernels.tensor import DataType

THINNING_LIMIT = 31  # a power of two
_EXACT = 1 << 24  # sums of magnitudes below it are the same in every order, in float32
_GRADIENT_BOUND, _OPERAND_BOUND = 8, 32
_NARROW_BOUND, _HALF_WEIGHT_BOUND = 4, 2  # for 16-bit dtypes
_NARROW = (DataType.FLOAT16, DataType.BF16)


def filled(
    inputs: Mapping[str, TensorCase], kind: Kind, *, gradient: str, longest: int, weight: str = ""
) -> dict[str, TensorCase]:
    """The inputs with their fills; a fill's blocks stay.

    Args:
        inputs: Inputs by name.
        kind: Kind of all fills.
        gradient: The input that is a factor of every product.
        longest: Products in the longest sum, K.
        weight: The input that is a weight, or "".
    """
    bounds = {name: _bound(name, tensor, gradient, weight) for name, tensor in inputs.items()}
    others = [bound for name, bound in bounds.items() if name != gradient]
    largest = longest * bounds[gradient] * max(others, default=1)
    thinning = min(max(0, (-(-largest // _EXACT) - 1).bit_length()), THINNING_LIMIT)
    found: dict[str, TensorCase] = {}
    for name, tensor in inputs.items():
        fill = replace(tensor.fill or Fill(), kind=kind)
        if kind == Kind.INTEGER:
            thinned = thinning if name == gradient else 0
            fill = replace(fill, bound=bounds[name], thinning=thinned)
        found[name] = replace(tensor, fill=fill)
    return found


def sums_exactly(inputs: Mapping[str, TensorCase], terms: int, *, gradient: str) -> bool:
    """Whether sums of the gradient's products with another input are the same in every order."""
    fills = {name: tensor.fill for name, tensor in inputs.items() if tensor.fill is not None}
    incoming = fills[gradient]
    others = max(
        (max(fill.bound, 1) for name, fill in fills.items() if name != gradient), default=1
    )
    largest = terms * max(incoming.bound, 1) * others
    is_integer = all(fill.kind == Kind.INTEGER for fill in fills.values())
    return is_integer and largest <= _EXACT << incoming.thinning


def _bound(name: str, tensor: TensorCase, gradient: str, weight: str) -> int:
    if name == weight and tensor.dtype == DataType.FLOAT16:
        return _HALF_WEIGHT_BOUND
    if tensor.dtype in _NARROW:
        return _NARROW_BOUND
    return _GRADIENT_BOUND if name == gradient else _OPERAND_BOUND
