"""Calls of convolution_backward by their geometry, as cases."""

from dataclasses import dataclass, replace
from math import prod

from opserve_kernels.cases.calls import DEFAULT, Row, Setting, placed
from opserve_kernels.cases.case import Case, TensorCase, Value
from opserve_kernels.cases.sizing import filled
from opserve_kernels.convolution import output_size
from opserve_kernels.number_formats import promote
from opserve_kernels.operators.convolution_backward.contract import RANK_2D
from opserve_kernels.operators.convolution_backward.schema import FORMATS
from opserve_kernels.tensor import DataType, Format

Mask = tuple[bool, bool, bool]
EVERY_GRADIENT: Mask = (True, True, True)
_FLOAT = DataType.FLOAT


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvolutionCall:
    """A call of convolution_backward; every row has an entry for each spatial dimension.

    Attributes:
        input: N, C, spatial sizes.
        weight: K, C/groups, taps; transposed: C, K/groups, taps.
        stride: Empty means ones.
        padding: Empty means zeros; in 2-D four entries, too: up, down, left, right.
        dilation: Empty means ones.
        output_padding: Empty means zeros.
        groups: Groups of channels.
        transposed: Whether the convolution is a transposed one.
        mask: The gradients to compute.
        gives_masked: Whether gradients outside the mask have a tensor too.
        dtypes: Dtypes of grad_output, input and weight.
        results: Dtypes of the gradients; None means the widest of their operands.
        cube_math_type: 0 to 3.
    """

    input: Row
    weight: Row
    stride: Row = ()
    padding: Row = ()
    dilation: Row = ()
    output_padding: Row = ()
    groups: int = 1
    transposed: bool = False
    mask: Mask = EVERY_GRADIENT
    gives_masked: bool = False
    dtypes: tuple[DataType, DataType, DataType] = (_FLOAT, _FLOAT, _FLOAT)
    results: tuple[DataType, DataType, DataType] | None = None
    cube_math_type: int = 0

    def in_dtype(self, dtype: DataType) -> "ConvolutionCall":
        """The same call in a dtype."""
        return replace(self, dtypes=(dtype,) * 3)

    @property
    def axes(self) -> int:
        """Spatial dimensions."""
        return len(self.input) - 2

    @property
    def output(self) -> Row:
        """Shape of grad_output; sizes below 1 where the kernel has no place."""
        channels = self.weight[1] * self.groups if self.transposed else self.weight[0]
        return (self.input[0], channels, *(self._size(axis) for axis in range(self.axes)))

    @property
    def multiply_adds(self) -> int:
        """Multiply-adds of one gradient."""
        output = self.input if self.transposed else self.output
        return output[0] * prod(output[2:]) * prod(self.weight)

    def case(self, setting: Setting = DEFAULT) -> Case:
        """The call."""
        tensors = self._inputs(setting) | self._outputs()
        return Case(
            operator="convolution_backward",
            profile=setting.profile,
            tensors=placed(tensors, setting),
            arguments=self._arguments(),
            tags=setting.tags,
            source=setting.source,
        )

    def _inputs(self, setting: Setting) -> dict[str, TensorCase]:
        tag = FORMATS[len(self.input)]
        shapes = {"grad_output": self.output, "input": self.input, "weight": self.weight}
        inputs = {
            name: TensorCase(shape=shape, dtype=dtype, format=tag)
            for (name, shape), dtype in zip(shapes.items(), self.dtypes, strict=True)
        }
        longest = max(self._terms())
        return filled(
            inputs, setting.kind, gradient="grad_output", weight="weight", longest=longest
        )

    def _terms(self) -> tuple[int, int, int]:
        """Products in the sums of the three gradients."""
        channels = self.weight[1] if self.transposed else self.weight[0] // max(self.groups, 1)
        places = self.input if self.transposed else self.output
        batch = self.input[0]
        return (
            channels * prod(self.weight[2:]),
            batch * prod(places[2:]),
            batch * prod(self.output[2:]),
        )

    def _outputs(self) -> dict[str, TensorCase]:
        tag = FORMATS[len(self.input)]
        grad_output, input_, weight = self.dtypes
        widest = (promote(grad_output, input_), promote(grad_output, weight), grad_output)
        dtypes = self.results or widest
        shapes = {
            "grad_input": self.input,
            "grad_weight": self.weight,
            "grad_bias": (self.output[1],),
        }
        return {
            name: TensorCase(
                shape=shape, dtype=dtype, format=Format.ND if name == "grad_bias" else tag
            )
            for (name, shape), dtype, wanted in zip(shapes.items(), dtypes, self.mask, strict=True)
            if wanted or self.gives_masked
        }

    def _arguments(self) -> dict[str, Value]:
        return {
            "bias_sizes": (self.output[1],),
            "stride": self.stride or (1,) * self.axes,
            "padding": self.padding or (0,) * self.axes,
            "dilation": self.dilation or (1,) * self.axes,
            "transposed": self.transposed,
            "output_padding": self.output_padding or (0,) * self.axes,
            "groups": self.groups,
            "output_mask": self.mask,
            "cube_math_type": self.cube_math_type,
        }

    def _size(self, axis: int) -> int:
        """Size of grad_output along a spatial dimension."""
        size, kernel = self.input[2 + axis], self.weight[2 + axis]
        stride = self.stride[axis] if self.stride else 1
        dilation = self.dilation[axis] if self.dilation else 1
        padding = sum(sides(self.padding, self.axes)[axis])
        if self.transposed:
            extra = self.output_padding[axis] if self.output_padding else 0
            return (size - 1) * stride - padding + dilation * (kernel - 1) + 1 + extra
        steps = {"stride": stride, "padding": padding, "dilation": dilation}
        return output_size(size, kernel=kernel, **steps)


def sides(padding: Row, axes: int) -> tuple[tuple[int, int], ...]:
    """Padding before and after the image, by spatial dimension; none where it is empty."""
    if len(padding) == RANK_2D and axes == RANK_2D - 2:
        up, down, left, right = padding
        return (up, down), (left, right)
    return tuple((side, side) for side in padding or (0,) * axes)
