"""Forward convolutions in float64, gathered position by position, with the vendor's roundings.

The sums are those of `convolution`: each output position reads its taps one after the other. The
oracle of the backward operator scatters the same products in another order.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any

import numpy as np

from kernels.oracles.convolution_backward import Geometry
from kernels.oracles.cube_math import SATURATING
from kernels.oracles.expectation import REFERENCE_UNIT, Doubles, Expectation, expect
from kernels.oracles.rounding import round_to_half, round_to_hf32, saturate
from kernels.oracles.transforms import Transformed
from opserve_kernels.tensor import DataType

Index = tuple[int, ...]
EXACT, EDGE = "reference", "ascend310b"
FLOAT, FLOAT16, BF16 = DataType.FLOAT, DataType.FLOAT16, DataType.BF16
_ALL = slice(None)
_POINTWISE = 65536
_USE_FP16 = 2
_HF32 = (1, 3)


@dataclass(frozen=True, slots=True, kw_only=True)
class ForwardCall:
    """A call of any forward operator; images are (N, C, spatial sizes), values are float64.

    Attributes:
        operands: "input", "weight" and, if there is one, "bias".
        dtypes: Of the same, and of "output".
        sizes: Shape of the output.
        geometry: The scalar arguments.
        cube_math_type: 0 to 4.
        profile: Of the device.
        is_transformed: Whether Winograd's algorithm may compute it.
    """

    operands: Mapping[str, Doubles]
    dtypes: Mapping[str, DataType]
    sizes: Index
    geometry: Geometry
    cube_math_type: int
    profile: str
    is_transformed: bool = False

    @property
    def promoted(self) -> DataType:
        """The dtype that holds input and weight."""
        first, second = self.dtypes["input"], self.dtypes["weight"]
        if first == second:
            return first
        return DataType.DOUBLE if DataType.DOUBLE in {first, second} else FLOAT

    @property
    def computed(self) -> DataType:
        """The dtype of the products' result."""
        older = self.profile in SATURATING
        if self.cube_math_type == _USE_FP16 or (older and self.promoted == FLOAT):
            return FLOAT16
        return self.promoted

    @property
    def saturates(self) -> bool:
        """Whether FLOAT16 keeps values within its range."""
        return self.profile in {*SATURATING, EDGE}


def convolution(input_: Doubles, weight: Doubles, sizes: Index, geometry: Geometry) -> Doubles:
    """The convolution itself, without bias: a sum of its own for each output position."""
    output = np.zeros(sizes)
    outputs = sizes[1] // geometry.groups
    inputs = input_.shape[1] // geometry.groups
    for group in range(geometry.groups):
        x = input_[:, group * inputs : (group + 1) * inputs]
        if geometry.transposed:
            w = np.swapaxes(weight[group * inputs : (group + 1) * inputs], 0, 1)
        else:
            w = weight[group * outputs : (group + 1) * outputs]
        ks = slice(group * outputs, (group + 1) * outputs)
        for place in product(*map(range, sizes[2:])):
            total = output[_at(_ALL, ks, place)]
            for tap, position in _read(place, input_.shape[2:], weight.shape[2:], geometry):
                total += x[_at(_ALL, _ALL, position)] @ w[_at(_ALL, _ALL, tap)].T
    return output


def expected(call: ForwardCall) -> Expectation | None:
    """The output; None for a call that writes nothing."""
    if 0 in {*call.sizes, call.operands["input"].size, call.operands["weight"].size}:
        return None
    x, w = (_operand(call.operands[name], name, call) for name in ("input", "weight"))
    with np.errstate(invalid="ignore"):
        sums = convolution(x, w, call.sizes, call.geometry)
        sizes = convolution(np.abs(x), np.abs(w), call.sizes, call.geometry)
        terms, transforms = _terms(call), _transforms(x, w, call)
        bias = call.operands.get("bias")
        if bias is None:
            return _rounded(sums, sizes, terms, transforms, call)
        values = _bias(bias, call).reshape(1, -1, *(1,) * (sums.ndim - 2))
        if not _adds_afterwards(call):
            found = sums + values, sizes + np.abs(values), terms + 1
            return _rounded(*found, transforms, call)
        # A sum that is rounded already takes the bias, and is rounded again.
        inner = _rounded(sums, sizes, terms, transforms, call, ends=False)
        # Without a FLOAT cube, the bias is FLOAT16 as the products are.
        older = call.profile in SATURATING
        added = call.computed if older else _joined(call.computed, call.dtypes["bias"])
        whole = inner.value + values
        slack = inner.tolerance + 2.0**-24 * np.abs(whole)
        outer = expect(whole, np.abs(whole), terms=1, roundings=(added, call.dtypes["output"]))
        value = saturate(outer.value) if _ends_in_half(call, added) else outer.value
        return Expectation(value=value, tolerance=outer.tolerance + 2 * slack)


def _rounded(
    sums: Doubles,
    sizes: Doubles,
    terms: int,
    transforms: Doubles | None,
    call: ForwardCall,
    *,
    ends: bool = True,
) -> Expectation:
    """Sums rounded to the dtype of the computation, and then to that of the output if it ends."""
    if call.profile == EXACT:
        own = (call.dtypes["output"],)
        return expect(sums, sizes, terms=terms, roundings=own, unit=REFERENCE_UNIT)
    steps = (call.computed, call.dtypes["output"]) if ends else (call.computed,)
    found = expect(sums, sizes, terms=terms, roundings=steps, transforms=transforms)
    if call.saturates and FLOAT16 in steps:
        return Expectation(value=saturate(found.value), tolerance=found.tolerance)
    return found


def _ends_in_half(call: ForwardCall, added: DataType) -> bool:
    return call.saturates and FLOAT16 in {added, call.dtypes["output"]}


def _joined(first: DataType, second: DataType) -> DataType:
    return first if first == second else FLOAT


def _adds_afterwards(call: ForwardCall) -> bool:
    in_3d = call.operands["input"].ndim == 5
    return call.geometry.transposed and in_3d and call.profile != EXACT


def _operand(array: Doubles, name: str, call: ForwardCall) -> Doubles:
    """As the cube reads it; narrower operands are not converted."""
    if call.cube_math_type == _USE_FP16 or (call.profile != EXACT and call.computed == FLOAT16):
        return array if call.dtypes[name] == FLOAT16 else _to_half(array, call)
    if call.cube_math_type in _HF32 and call.promoted == FLOAT:
        return round_to_hf32(array, mantissa_bits=10 if call.profile == EDGE else 11)
    return array


def _bias(array: Doubles, call: ForwardCall) -> Doubles:
    """As it is added: rounded to FLOAT16 only where the kernel adds it in FLOAT16."""
    if call.profile == EXACT or call.computed != FLOAT16 or call.dtypes["bias"] == FLOAT16:
        return array
    if call.profile == "ascend910b" and (call.geometry.transposed or _is_pointwise(call)):
        return array
    return _to_half(array, call)


def _is_pointwise(call: ForwardCall) -> bool:
    geometry, image = call.geometry, call.operands["input"]
    ones = (*call.operands["weight"].shape[2:], *geometry.stride, *geometry.dilation)
    return (
        image.ndim == 5
        and not _covers_input(call)
        and set(ones) == {1}
        and set(geometry.padding) == {0}
        and geometry.groups == 1
        and prod(image.shape[2:]) < _POINTWISE
    )


def _covers_input(call: ForwardCall) -> bool:
    """Whether the kernel is as large as the input: a matrix product, with a bias in FLOAT16."""
    return call.operands["input"].shape[2:] == call.operands["weight"].shape[2:]


def _to_half(array: Doubles, call: ForwardCall) -> Doubles:
    return round_to_half(saturate(array) if call.saturates else array)


def _terms(call: ForwardCall) -> int:
    channels: int = call.operands["input"].shape[1] // call.geometry.groups
    return channels * int(prod(call.operands["weight"].shape[2:]))


def _transforms(x: Doubles, w: Doubles, call: ForwardCall) -> Doubles | None:
    """The error that Winograd's algorithm may add."""
    if not call.is_transformed:
        return None
    geometry = call.geometry
    kind = Transformed(
        kernel=w.shape[2:],
        padding=geometry.padding,
        dilation=geometry.dilation,
        groups=geometry.groups,
    )
    if geometry.transposed:
        return kind.image_error(x, w, call.sizes[2:])
    return kind.output_error(x, w, call.sizes[2:])


def _read(
    place: Index, size: Index, kernel: Index, geometry: Geometry
) -> Iterator[tuple[Index, Index]]:
    """The taps of an output position that meet the input, and where."""
    for tap in product(*map(range, kernel)):
        position = tuple(
            _position(o, t, axis, geometry)
            for axis, (o, t) in enumerate(zip(place, tap, strict=True))
        )
        if all(0 <= i < n for i, n in zip(position, size, strict=True)):
            yield tap, position


def _at(first: slice, second: slice, place: Index) -> Any:  # an index of any number of axes
    return (first, second, *place)


def _position(place: int, tap: int, axis: int, geometry: Geometry) -> int:
    """The input position of a tap; -1 where a transposed convolution has none."""
    stride, padding = geometry.stride[axis], geometry.padding[axis]
    reach = tap * geometry.dilation[axis]
    if not geometry.transposed:
        return place * stride + reach - padding
    steps, rest = divmod(place + padding - reach, stride)
    return -1 if rest else steps
