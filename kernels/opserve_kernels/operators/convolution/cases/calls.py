"""Calls of convolution by their geometry, as cases, and cases as calls."""

from dataclasses import dataclass, replace
from math import prod
from typing import cast

from opserve_kernels.cases.calls import DEFAULT, Row, Setting, placed
from opserve_kernels.cases.case import Case, TensorCase
from opserve_kernels.cases.sizing import filled
from opserve_kernels.forward.call import Call
from opserve_kernels.forward.sizes import Steps, channels_first
from opserve_kernels.operators.convolution.schema import FORMATS
from opserve_kernels.tensor import DataType, Format

_FLOAT = DataType.FLOAT


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerCall:
    """A call of convolution; every row has an entry for each spatial dimension.

    Attributes:
        input: N, C, spatial sizes.
        weight: K, C/groups, taps; transposed: C, K/groups, taps.
        stride: Empty means ones.
        padding: Empty means zeros; entries before and after too, where the call allows them.
        dilation: Empty means ones.
        output_padding: Empty means zeros.
        groups: Groups of channels.
        transposed: Whether the convolution is a transposed one.
        has_bias: Whether it has a bias.
        channels_last: Tensors in format NDHWC, of a 3-D call.
        dtypes: Dtypes of input, weight, bias and output.
        cube_math_type: 0 to 4.
    """

    input: Row
    weight: Row
    stride: Row = ()
    padding: Row = ()
    dilation: Row = ()
    output_padding: Row = ()
    groups: int = 1
    transposed: bool = False
    has_bias: bool = True
    channels_last: tuple[str, ...] = ()
    dtypes: tuple[DataType, DataType, DataType, DataType] = (_FLOAT, _FLOAT, _FLOAT, _FLOAT)
    cube_math_type: int = 0

    def in_dtype(self, dtype: DataType) -> "LayerCall":
        """The same call in a dtype."""
        return replace(self, dtypes=(dtype,) * 4)

    @property
    def steps(self) -> Steps:
        """The arguments that are no tensors."""
        axes = len(self.input) - 2
        return Steps(
            stride=self.stride or (1,) * axes,
            padding=self.padding or (0,) * axes,
            dilation=self.dilation or (1,) * axes,
            transposed=self.transposed,
            output_padding=self.output_padding or (0,) * axes,
            groups=self.groups,
        )

    @property
    def output(self) -> Row:
        """Shape of the output; sizes below 1 where the kernel has no place."""
        return self.steps.output_sizes(self.input, self.weight)

    def case(self, setting: Setting = DEFAULT) -> Case:
        """The call."""
        steps = self.steps
        tag = FORMATS[len(self.input)]
        first, second, third, last = self.dtypes
        inputs = {
            "input": TensorCase(shape=self.input, dtype=first, format=tag),
            "weight": TensorCase(shape=self.weight, dtype=second, format=tag),
        }
        if self.has_bias:
            inputs["bias"] = TensorCase(shape=self.output[1:2], dtype=third)
        given = filled(
            inputs, setting.kind, gradient="input", weight="weight", longest=self._terms + 1
        )
        tensors = given | {"output": TensorCase(shape=self.output, dtype=last, format=tag)}
        for name in self.channels_last:
            tensors[name] = _channels_last(tensors[name])
        return Case(
            operator="convolution",
            profile=setting.profile,
            tensors=placed(tensors, setting),
            arguments={
                "stride": steps.stride,
                "padding": steps.padding,
                "dilation": steps.dilation,
                "transposed": steps.transposed,
                "output_padding": steps.output_padding,
                "groups": steps.groups,
                "cube_math_type": self.cube_math_type,
            },
            tags=setting.tags,
            source=setting.source,
        )

    @property
    def _terms(self) -> int:
        """Products in a sum."""
        channels = self.weight[0] // max(self.groups, 1) if self.transposed else self.weight[1]
        return channels * prod(self.weight[2:])


def call_of(case: Case) -> Call:
    """A case that succeeds, as a call."""
    given = case.arguments
    rows = {
        name: cast("Row", given[name])
        for name in ("stride", "padding", "dilation", "output_padding")
    }
    return Call(
        input=channels_first(case.tensors["input"].tensor()),
        weight=channels_first(case.tensors["weight"].tensor()),
        bias=case.tensors["bias"].tensor() if "bias" in case.tensors else None,
        output=channels_first(case.tensors["output"].tensor()),
        steps=Steps(
            transposed=bool(given["transposed"]), groups=cast("int", given["groups"]), **rows
        ),
        cube_math_type=cast("int", given["cube_math_type"]),
        has_channels_last=Format.NDHWC in {tensor.format for tensor in case.tensors.values()},
    )


def _channels_last(tensor: TensorCase) -> TensorCase:
    batch, channels, *sizes = tensor.shape
    return replace(tensor, shape=(batch, *sizes, channels), format=Format.NDHWC)
