"""Calls of the operators on blocks by their geometry, for either gradient."""

from dataclasses import dataclass

from opserve_kernels.cases.calls import Row
from opserve_kernels.cases.case import Fill, TensorCase, Value
from opserve_kernels.convolution import output_size
from opserve_kernels.formats import BLOCK, fractal_z_shape
from opserve_kernels.tensor import DataType, Format

_HALF = DataType.FLOAT16


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockCall:
    """A call of conv2d_backprop_input or conv2d_backprop_filter.

    Attributes:
        image: N, Cin, H, W.
        weight: Cout, Cin/groups, KH, KW.
        strides: Strides in height and width.
        padding: Up, down, left, right.
        dilations: Dilations in height and width.
        groups: Groups of channels; None leaves the argument out.
        dtype: Dtype of the operands.
        result: Dtype of the result, as Python spells it; None leaves the argument out.
        raw: The argument of conv2d_backprop_filter.
    """

    image: Row
    weight: Row
    strides: Row = (1, 1)
    padding: Row = (0, 0, 0, 0)
    dilations: Row = (1, 1)
    groups: int | None = None
    dtype: DataType = _HALF
    result: str | None = None
    raw: bool = False

    @property
    def output(self) -> Row:
        """Height and width of out_backprop."""
        return tuple(
            output_size(
                self.image[2 + axis],
                kernel=self.weight[2 + axis],
                stride=self.strides[axis],
                padding=sum(self.padding[2 * axis : 2 * axis + 2]),
                dilation=self.dilations[axis],
            )
            for axis in range(2)
        )

    def para_dict(self) -> dict[str, Value]:
        """The members that both operators have."""
        members: dict[str, Value] = {
            "strides": self.strides,
            "padding": self.padding,
            "dilations": (1, 1, *self.dilations),
        }
        return members | ({} if self.result is None else {"res_dtype": self.result})

    def filters(self, dtype: DataType, *, is_result: bool = False) -> TensorCase:
        """The weight in FRACTAL_Z."""
        groups = self.groups or 1
        return TensorCase(
            shape=fractal_z_shape(self.weight, groups),
            dtype=dtype,
            format=Format.FRACTAL_Z,
            fill=None if is_result else Fill(plain=self.weight, groups=groups),
        )

    def out_backprop(self) -> TensorCase:
        """The gradient of the output in NC1HWC0."""
        plain = (self.image[0], self.weight[0], *self.output)
        return self.blocked(plain, self.dtype, Fill(plain=plain))

    def blocked(self, plain: Row, dtype: DataType, fill: Fill | None = None) -> TensorCase:
        """An image (N, C, H, W) in NC1HWC0."""
        batch, channels, height, width = plain
        return TensorCase(
            shape=(batch, -(-channels // BLOCK), height, width, BLOCK),
            dtype=dtype,
            format=Format.NC1HWC0,
            fill=fill,
        )
