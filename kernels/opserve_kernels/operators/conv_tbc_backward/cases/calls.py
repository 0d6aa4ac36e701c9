"""Calls of conv_tbc_backward by their geometry, as cases."""

from dataclasses import dataclass, replace

from opserve_kernels.cases.calls import DEFAULT, Row, Setting, placed
from opserve_kernels.cases.case import Case, TensorCase
from opserve_kernels.cases.sizing import filled
from opserve_kernels.tensor import DataType

_FLOAT = DataType.FLOAT


@dataclass(frozen=True, slots=True, kw_only=True)
class TbcCall:
    """A call of conv_tbc_backward.

    Attributes:
        image: T, B, Cin.
        weight: K, Cin, Cout.
        pad: Zeros before and after the image.
        dtypes: Dtypes of self, input, weight and bias; a gradient has that of its tensor.
        cube_math_type: 0 to 3.
    """

    image: Row
    weight: Row
    pad: int = 0
    dtypes: tuple[DataType, DataType, DataType, DataType] = (_FLOAT, _FLOAT, _FLOAT, _FLOAT)
    cube_math_type: int = 0

    def in_dtype(self, dtype: DataType) -> "TbcCall":
        """The same call in a dtype."""
        return replace(self, dtypes=(dtype,) * 4)

    @property
    def output(self) -> Row:
        """Shape of self."""
        positions = self.image[0] + 2 * self.pad + 1 - self.weight[0]
        return positions, self.image[1], self.weight[2]

    def case(self, setting: Setting = DEFAULT) -> Case:
        """The call."""
        shapes = (self.output, self.image, self.weight, self.weight[2:])
        given = {
            name: TensorCase(shape=shape, dtype=dtype)
            for name, shape, dtype in zip(
                ("self", "input", "weight", "bias"), shapes, self.dtypes, strict=True
            )
        }
        gradients = {f"grad_{name}": given[name] for name in ("input", "weight", "bias")}
        taps, _, outputs = self.weight
        longest = max(taps * outputs, self.output[0] * self.output[1])
        inputs = filled(given, setting.kind, gradient="self", weight="weight", longest=longest)
        return Case(
            operator="conv_tbc_backward",
            profile=setting.profile,
            tensors=placed(inputs | gradients, setting),
            arguments={"pad": self.pad, "cube_math_type": self.cube_math_type},
            tags=setting.tags,
            source=setting.source,
        )
