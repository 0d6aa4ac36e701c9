"""Calls of deconv_grad_filter by their geometry, as cases."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import prod

from opserve_kernels.cases.calls import DEFAULT, Row, Setting, placed
from opserve_kernels.cases.case import Case, TensorCase, Value
from opserve_kernels.cases.sizing import filled
from opserve_kernels.tensor import DataType, Format


@dataclass(frozen=True, slots=True, kw_only=True)
class DeconvolutionCall:
    """A call of deconv_grad_filter, with its numbers as fields.

    Attributes:
        x: N, H, W, C of x_data.
        dy: N, H, W, C of dy_data.
        kernel: Height and width.
        stride: Stride in height and width.
        padding: Padding above and on the left.
        dilation: Dilation in height and width.
        group: Groups of channels.
        dtype: Dtype of all tensors.
        more: Other arguments: function, core_mask, row_order.
        entries: Entries of the array of numbers, 18 to 20; 0 for fields in its place.
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

    def in_dtype(self, dtype: DataType) -> "DeconvolutionCall":
        """The same call in a dtype."""
        return replace(self, dtype=dtype)

    def case(self, setting: Setting = DEFAULT) -> Case:
        """The call."""
        images = {
            name: TensorCase(shape=shape, dtype=self.dtype, format=Format.NHWC)
            for name, shape in (("dy_data", self.dy), ("x_data", self.x))
        }
        inputs = filled(images, setting.kind, gradient="dy_data", longest=prod(self.x[:3]))
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
        """The numbers in the vendor's order, temp_space, and the ignored entries behind them."""
        steps = (*self.kernel, *self.stride, *self.padding, *self.dilation, self.group)
        return {"param": (*self.x, *self.dy, *steps, *(0,) * (self.entries - 17))}
