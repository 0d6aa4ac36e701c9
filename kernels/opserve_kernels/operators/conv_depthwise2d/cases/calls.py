"""Calls of conv_depthwise2d by their geometry, as cases, and cases as calls."""

from dataclasses import dataclass, replace
from math import prod
from typing import cast

from opserve_kernels.cases.calls import DEFAULT, Row, Setting, placed
from opserve_kernels.cases.case import Case, TensorCase
from opserve_kernels.cases.sizing import filled
from opserve_kernels.forward.call import Call
from opserve_kernels.forward.sizes import Steps
from opserve_kernels.tensor import DataType, Format

_FLOAT = DataType.FLOAT


@dataclass(frozen=True, slots=True, kw_only=True)
class DepthwiseCall:
    """A call of conv_depthwise2d.

    Attributes:
        image: N, C, H, W.
        kernel: Height and width.
        multiplier: Filters of a channel.
        stride: Steps of the kernel.
        padding: Zeros around the image.
        dilation: Distance of taps.
        has_bias: Whether it has a bias.
        dtype: Dtype of all tensors.
        cube_math_type: 0 to 4.
    """

    image: Row
    kernel: Row
    multiplier: int = 1
    stride: Row = (1, 1)
    padding: Row = (0, 0)
    dilation: Row = (1, 1)
    has_bias: bool = True
    dtype: DataType = _FLOAT
    cube_math_type: int = 0

    def in_dtype(self, dtype: DataType) -> "DepthwiseCall":
        """The same call in a dtype."""
        return replace(self, dtype=dtype)

    @property
    def weight(self) -> Row:
        """Shape of the weight."""
        return (self.multiplier * self.image[1], 1, *self.kernel)

    @property
    def out(self) -> Row:
        """Shape of out."""
        steps = Steps(stride=self.stride, padding=self.padding, dilation=self.dilation)
        return steps.output_sizes(self.image, self.weight)

    def case(self, setting: Setting = DEFAULT) -> Case:
        """The call."""
        inputs = {
            "self": TensorCase(shape=self.image, dtype=self.dtype, format=Format.NCHW),
            "weight": TensorCase(shape=self.weight, dtype=self.dtype, format=Format.NCHW),
        }
        if self.has_bias:
            inputs["bias"] = TensorCase(shape=self.weight[:1], dtype=self.dtype)
        longest = prod(self.kernel) + 1
        given = filled(inputs, setting.kind, gradient="self", weight="weight", longest=longest)
        out = TensorCase(shape=self.out, dtype=self.dtype, format=Format.NCHW)
        return Case(
            operator="conv_depthwise2d",
            profile=setting.profile,
            tensors=placed(given | {"out": out}, setting),
            arguments={
                "kernel_size": self.kernel,
                "stride": self.stride,
                "padding": self.padding,
                "dilation": self.dilation,
                "cube_math_type": self.cube_math_type,
            },
            tags=setting.tags,
            source=setting.source,
        )


def call_of(case: Case) -> Call:
    """A case that succeeds, as a call."""
    rows = {name: cast("Row", case.arguments[name]) for name in ("stride", "padding", "dilation")}
    image = case.tensors["self"].tensor()
    return Call(
        input=image,
        weight=case.tensors["weight"].tensor(),
        bias=case.tensors["bias"].tensor() if "bias" in case.tensors else None,
        output=case.tensors["out"].tensor(),
        steps=Steps(transposed=False, groups=max(image.shape[1], 1), **rows),
        cube_math_type=cast("int", case.arguments["cube_math_type"]),
        input_name="self",
        output_name="out",
    )
