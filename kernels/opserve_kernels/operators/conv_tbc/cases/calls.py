"""Calls of conv_tbc by their geometry, as cases, and cases as calls."""

from dataclasses import dataclass, replace
from typing import cast

from opserve_kernels.cases.calls import DEFAULT, Row, Setting, placed
from opserve_kernels.cases.case import Case, TensorCase
from opserve_kernels.cases.sizing import filled
from opserve_kernels.forward.call import Call
from opserve_kernels.forward.sizes import Steps
from opserve_kernels.tensor import DataType, Format, permuted

_FLOAT = DataType.FLOAT
_TO_NCL, _TO_WEIGHT = (1, 2, 0), (2, 1, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class TbcLayerCall:
    """A call of conv_tbc.

    Attributes:
        image: T, B, Cin.
        weight: K, Cin, Cout.
        pad: Zeros before and after the times.
        dtypes: Dtypes of self and weight and out, and of the bias.
        cube_math_type: 0 to 4.
    """

    image: Row
    weight: Row
    pad: int = 0
    dtypes: tuple[DataType, DataType] = (_FLOAT, _FLOAT)
    cube_math_type: int = 0

    def in_dtype(self, dtype: DataType) -> "TbcLayerCall":
        """The same call in a dtype."""
        return replace(self, dtypes=(dtype, dtype))

    @property
    def out(self) -> Row:
        """Shape of out."""
        times, batch, _ = self.image
        return (times + 2 * self.pad - self.weight[0] + 1, batch, self.weight[2])

    def case(self, setting: Setting = DEFAULT) -> Case:
        """The call."""
        dtype, bias = self.dtypes
        inputs = {
            "self": TensorCase(shape=self.image, dtype=dtype),
            "weight": TensorCase(shape=self.weight, dtype=dtype),
            "bias": TensorCase(shape=self.weight[2:], dtype=bias),
        }
        longest = self.weight[0] * self.weight[1] + 1
        given = filled(inputs, setting.kind, gradient="self", weight="weight", longest=longest)
        return Case(
            operator="conv_tbc",
            profile=setting.profile,
            tensors=placed(given | {"out": TensorCase(shape=self.out, dtype=dtype)}, setting),
            arguments={"pad": self.pad, "cube_math_type": self.cube_math_type},
            tags=setting.tags,
            source=setting.source,
        )


def call_of(case: Case) -> Call:
    """A case that succeeds, as a call."""
    pad = cast("int", case.arguments["pad"])
    tensors = {name: tensor.tensor() for name, tensor in case.tensors.items()}
    return Call(
        input=permuted(tensors["self"], _TO_NCL, Format.NCL),
        weight=permuted(tensors["weight"], _TO_WEIGHT, Format.NCL),
        bias=tensors["bias"],
        output=permuted(tensors["out"], _TO_NCL, Format.NCL),
        steps=Steps(stride=(1,), padding=(pad,), dilation=(1,)),
        cube_math_type=cast("int", case.arguments["cube_math_type"]),
        input_name="self",
        output_name="out",
    )
