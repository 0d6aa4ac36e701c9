"""Calls of im2col by their geometry, as cases."""

from dataclasses import dataclass, replace

from opserve_kernels.cases.calls import DEFAULT, Row, Setting, placed
from opserve_kernels.cases.case import Case, TensorCase
from opserve_kernels.cases.image_blocks import Blocks
from opserve_kernels.cases.sizing import filled
from opserve_kernels.tensor import DataType

_FLOAT = DataType.FLOAT


@dataclass(frozen=True, slots=True, kw_only=True)
class UnfoldCall:
    """A call of im2col.

    Attributes:
        image: (N,) C, H, W.
        kernel: Height and width of a block.
        stride: Steps between blocks.
        padding: Zeros around the image.
        dilation: Distance between a block's elements.
        dtypes: Dtypes of self and out.
    """

    image: Row
    kernel: Row
    stride: Row = (1, 1)
    padding: Row = (0, 0)
    dilation: Row = (1, 1)
    dtypes: tuple[DataType, DataType] = (_FLOAT, _FLOAT)

    def in_dtype(self, dtype: DataType) -> "UnfoldCall":
        """The same call in a dtype."""
        return replace(self, dtypes=(dtype, dtype))

    def case(self, setting: Setting = DEFAULT) -> Case:
        """The call."""
        image = {"self": TensorCase(shape=self.image, dtype=self.dtypes[0])}
        inputs = filled(image, setting.kind, gradient="self", longest=1)
        tensors = inputs | {"out": TensorCase(shape=self._columns, dtype=self.dtypes[1])}
        return Case(
            operator="im2col",
            profile=setting.profile,
            tensors=placed(tensors, setting),
            arguments={
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
            image=self.image,
            kernel=self.kernel,
            stride=self.stride,
            padding=self.padding,
            dilation=self.dilation,
        )
        return blocks.columns
