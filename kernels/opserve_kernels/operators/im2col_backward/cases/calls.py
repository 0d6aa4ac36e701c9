"""Calls of im2col_backward by their geometry, as cases."""

from dataclasses import dataclass, replace
from math import prod

from opserve_kernels.cases.calls import DEFAULT, Row, Setting, placed
from opserve_kernels.cases.case import Case, TensorCase
from opserve_kernels.cases.image_blocks import Blocks
from opserve_kernels.cases.sizing import filled
from opserve_kernels.tensor import DataType

_FLOAT = DataType.FLOAT


@dataclass(frozen=True, slots=True, kw_only=True)
class FoldCall:
    """A call of im2col_backward.

    Attributes:
        out: (N,) C, H, W.
        kernel: Height and width of a block.
        stride: Steps between blocks.
        padding: Zeros around the image.
        dilation: Distance between a block's elements.
        dtypes: Dtypes of grad_output and out.
    """

    out: Row
    kernel: Row
    stride: Row = (1, 1)
    padding: Row = (0, 0)
    dilation: Row = (1, 1)
    dtypes: tuple[DataType, DataType] = (_FLOAT, _FLOAT)

    def in_dtype(self, dtype: DataType) -> "FoldCall":
        """The same call in a dtype."""
        return replace(self, dtypes=(dtype, dtype))

    def case(self, setting: Setting = DEFAULT) -> Case:
        """The call."""
        columns = {"grad_output": TensorCase(shape=self._columns, dtype=self.dtypes[0])}
        inputs = filled(columns, setting.kind, gradient="grad_output", longest=prod(self.kernel))
        tensors = inputs | {"out": TensorCase(shape=self.out, dtype=self.dtypes[1])}
        return Case(
            operator="im2col_backward",
            profile=setting.profile,
            tensors=placed(tensors, setting),
            arguments={
                "input_size": self.out[-2:],
                "kernel_size": self.kernel,
                "dilation": self.dilation,
                "padding": self.padding,
                "stride": self.stride,
            },
            tags=setting.tags,
            source=setting.source,
        )

    @property
    def _columns(self) -> Row:
        blocks = Blocks(
            image=self.out,
            kernel=self.kernel,
            stride=self.stride,
            padding=self.padding,
            dilation=self.dilation,
        )
        return blocks.columns
