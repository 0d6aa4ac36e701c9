"""Calls of the operators on blocks, and of the DSP's, by their geometry, as cases."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod

from opserve_kernels.cases.calls import DEFAULT, Row, Setting, placed
from opserve_kernels.cases.case import Case, Fill, TensorCase, Value
from opserve_kernels.cases.sizing import filled
from opserve_kernels.convolution import output_size
from opserve_kernels.formats import fractal_z_shape, group_dict
from opserve_kernels.tbe_rules import BLOCK, SPELLED
from opserve_kernels.tensor import DataType, Format

_HALF = DataType.FLOAT16


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockCall:
    """A call of conv2d_backprop_input or conv2d_backprop_filter.

    Attributes:
        image: N, Cin, H, W.
        weight: Cout, Cin/groups, KH, KW.
        strides: In height and width.
        padding: Up, down, left, right.
        dilations: In height and width.
        groups: Groups of channels; None leaves the argument out.
        dtype: Of the operands.
        result: Of the result, as Python spells it; None leaves the argument out.
        raw: Of conv2d_backprop_filter.
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

    def input_case(self, setting: Setting = DEFAULT) -> Case:
        """The call of conv2d_backprop_input."""
        tensors = {"filters": self._filters(self.dtype), "out_backprop": self._out_backprop()}
        longest = self.weight[0] // (self.groups or 1) * prod(self.weight[2:])
        result = self._blocked(self.image, SPELLED[self.result or "float16"])
        inputs = filled(
            "conv2d_backprop_input", tensors, setting.kind, weight="filters", longest=longest
        )
        members = self._para_dict()
        if self.groups is not None:
            members["group_dict"] = group_dict(self.weight, self.groups)
        return Case(
            operator="conv2d_backprop_input",
            profile=setting.profile,
            tensors=placed(inputs | {"res_tensor": result}, setting),
            arguments={
                "filter_sizes": self.weight,
                "input_sizes": self.image,
                "para_dict": members,
            },
            tags=setting.tags,
            source=setting.source,
        )

    def filter_case(self, setting: Setting = DEFAULT) -> Case:
        """The call of conv2d_backprop_filter."""
        image = self._blocked(self.image, self.dtype, Fill(plain=self.image))
        tensors = {"input_x": image, "out_backprop": self._out_backprop()}
        longest = self.image[0] * prod(self.output)
        inputs = filled("conv2d_backprop_filter", tensors, setting.kind, longest=longest)
        weight = self._filters(SPELLED[self.result or "float32"], is_result=True)
        members = self._para_dict()
        if self.groups is not None:
            members["groups"] = self.groups
        arguments: dict[str, Value] = {"filter_sizes": self.weight, "para_dict": members}
        return Case(
            operator="conv2d_backprop_filter",
            profile=setting.profile,
            tensors=placed(inputs | {"res_tensor": weight}, setting),
            arguments=arguments | ({"raw": True} if self.raw else {}),
            tags=setting.tags,
            source=setting.source,
        )

    def _para_dict(self) -> dict[str, Value]:
        members: dict[str, Value] = {
            "strides": self.strides,
            "padding": self.padding,
            "dilations": (1, 1, *self.dilations),
        }
        return members | ({} if self.result is None else {"res_dtype": self.result})

    def _filters(self, dtype: DataType, *, is_result: bool = False) -> TensorCase:
        groups = self.groups or 1
        return TensorCase(
            shape=fractal_z_shape(self.weight, groups),
            dtype=dtype,
            format=Format.FRACTAL_Z,
            fill=None if is_result else Fill(plain=self.weight, groups=groups),
        )

    def _out_backprop(self) -> TensorCase:
        plain = (self.image[0], self.weight[0], *self.output)
        return self._blocked(plain, self.dtype, Fill(plain=plain))

    def _blocked(self, plain: Row, dtype: DataType, fill: Fill | None = None) -> TensorCase:
        batch, channels, height, width = plain
        return TensorCase(
            shape=(batch, -(-channels // BLOCK), height, width, BLOCK),
            dtype=dtype,
            format=Format.NC1HWC0,
            fill=fill,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class DeconvolutionCall:
    """A call of deconv_grad_filter, with its numbers as fields.

    Attributes:
        x: N, H, W, C of x_data.
        dy: N, H, W, C of dy_data.
        kernel: In height and width.
        stride: The same.
        padding: Above and on the left.
        dilation: In height and width.
        group: Groups of channels.
        dtype: Of all tensors.
        more: Other arguments: function, core_mask, row_order.
        entries: Of the array that holds the numbers, 18 to 20; 0 for fields in its place.
    """

    x: Row
    dy: Row
    kernel: Row
    stride: Row = (1, 1)
    padding: Row = (0, 0)
    dilation: Row = (1, 1)
    group: int = 1
    dtype: DataType = DataType.FLOAT
    more: Mapping[str, Value] = field(default_factory=dict[str, Value])
    entries: int = 0

    def case(self, setting: Setting) -> Case:
        """The call."""
        images = {
            name: TensorCase(shape=shape, dtype=self.dtype, format=Format.NHWC)
            for name, shape in (("dy_data", self.dy), ("x_data", self.x))
        }
        inputs = filled("deconv_grad_filter", images, setting.kind, longest=prod(self.x[:3]))
        rows = self.dy[3] // self.group * prod(self.kernel)
        shape = (self.group, rows, self.x[3] // self.group)
        result = TensorCase(shape=shape, dtype=self.dtype, format=Format.NHWC)
        return Case(
            operator="deconv_grad_filter",
            profile=setting.profile,
            tensors=placed(inputs | {"dw_data": result}, setting),
            arguments={**(self._param() if self.entries else self._numbers()), **self.more},
            tags=setting.tags,
            source=setting.source,
        )

    def _numbers(self) -> dict[str, Value]:
        rows = {
            "kernel": ("h", "w", self.kernel),
            "stride": ("h", "w", self.stride),
            "pad": ("u", "l", self.padding),
            "dilation": ("h", "w", self.dilation),
        }
        numbers: dict[str, Value] = {"group": self.group}
        for name, (first, second, values) in rows.items():
            numbers |= {f"{name}_{first}": values[0], f"{name}_{second}": values[1]}
        return numbers

    def _param(self) -> dict[str, Value]:
        """The numbers in the vendor's order, temp_space and what is ignored behind them."""
        steps = (*self.kernel, *self.stride, *self.padding, *self.dilation, self.group)
        return {"param": (*self.x, *self.dy, *steps, *(0,) * (self.entries - 17))}
