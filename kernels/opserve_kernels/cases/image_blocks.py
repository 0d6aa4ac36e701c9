"""Blocks of images: the geometries of calls that unfold an image, or fold its columns."""

from dataclasses import dataclass, replace
from math import prod
from typing import Any, cast

from opserve_kernels.cases.calls import Row
from opserve_kernels.cases.case import Case
from opserve_kernels.cases.forms.drawing import CHANNELS, Numbers, between, row
from opserve_kernels.convolution import output_size
from opserve_kernels.tensor import DataType

_FLOAT, _HALF, _BF16 = DataType.FLOAT, DataType.FLOAT16, DataType.BF16
MIXTURES = ((_HALF, _FLOAT), (_FLOAT, _HALF), (_BF16, _HALF), (_FLOAT, _BF16))
"""Different dtypes of a call's input and output."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocks:
    """Blocks of an image.

    Attributes:
        image: (N,) C, H, W.
        kernel: Height and width of a block.
        stride: Steps between blocks.
        padding: Zeros around the image.
        dilation: Distance between a block's elements.
    """

    image: Row
    kernel: Row
    stride: Row = (1, 1)
    padding: Row = (0, 0)
    dilation: Row = (1, 1)

    @property
    def steps(self) -> dict[str, Any]:
        """The members but the image."""
        return {
            "kernel": self.kernel,
            "stride": self.stride,
            "padding": self.padding,
            "dilation": self.dilation,
        }

    @property
    def columns(self) -> Row:
        """Shape of the matrix with a column for each block."""
        *batch, channels, _, _ = self.image
        return (*batch, channels * prod(self.kernel), prod(map(self._places, range(2))))

    def _places(self, axis: int) -> int:
        return output_size(
            self.image[axis - 2],
            kernel=self.kernel[axis],
            stride=self.stride[axis],
            padding=2 * self.padding[axis],
            dilation=self.dilation[axis],
        )


PLAIN = Blocks(image=(2, 3, 9, 10), kernel=(3, 2))
ALL = Blocks(image=(2, 3, 11, 9), kernel=(3, 2), stride=(2, 3), padding=(2, 1), dilation=(3, 2))


def named_blocks() -> dict[str, Blocks]:
    """Blocks by the name of a form, simple ones first."""
    return {
        "plain": PLAIN,
        "one entry": replace(PLAIN, image=(3, 9, 10)),
        "stride": replace(PLAIN, stride=(2, 3)),
        "padding": replace(PLAIN, padding=(1, 2)),
        "dilation": replace(PLAIN, dilation=(2, 3)),
        "all of them": ALL,
        "all of them, one entry": replace(ALL, image=(3, 11, 9)),
        "kernel of 1": replace(PLAIN, kernel=(1, 1)),
        "block as large as the image": replace(PLAIN, kernel=(9, 10)),
        "stride of the block": Blocks(image=(2, 3, 8, 6), kernel=(4, 3), stride=(4, 3)),
        "stride beyond the block": replace(PLAIN, kernel=(1, 2), stride=(3, 4)),
        "padding beyond the block": Blocks(image=(1, 2, 3, 4), kernel=(2, 2), padding=(3, 4)),
        "one row": Blocks(image=(2, 3, 1, 9), kernel=(1, 3), padding=(0, 1)),
        "one column": Blocks(image=(2, 3, 9, 1), kernel=(3, 1), padding=(1, 0)),
        "one of everything": Blocks(image=(1, 1, 1, 1), kernel=(1, 1)),
        "a wide image": Blocks(image=(1, 2, 20, 150), kernel=(3, 3), padding=(1, 1)),
        "large blocks": Blocks(image=(1, 2, 24, 24), kernel=(9, 9), padding=(4, 4)),
        "many channels": Blocks(image=(2, 33, 14, 14), kernel=(3, 3), padding=(1, 1)),
        "no entries": replace(PLAIN, image=(0, 3, 9, 10)),
        "no channels": replace(PLAIN, image=(2, 0, 9, 10)),
        "steps beyond the image": Blocks(
            image=(2, 3, 4), kernel=(1, 1), stride=(2**40, 2**40), dilation=(2**40, 2**40)
        ),
    }


def drawn_blocks(numbers: Numbers) -> Blocks:
    """Blocks of any geometry."""
    kernel, dilation = row(numbers, 2, 1, 5), row(numbers, 2, 1, 3)
    dilated_kernel = tuple(
        step * (taps - 1) + 1 for step, taps in zip(dilation, kernel, strict=True)
    )
    size = tuple(span + between(numbers, 0, 20) for span in dilated_kernel)
    batch = row(numbers, between(numbers, 0, 1), 1, 4)
    return Blocks(
        image=(*batch, between(numbers, 1, CHANNELS), *size),
        kernel=kernel,
        stride=row(numbers, 2, 1, 4),
        padding=row(numbers, 2, 0, 3),
        dilation=dilation,
    )


def steps_of(case: Case) -> tuple[Row, Row, Row]:
    """Stride, padding and dilation."""
    given = case.arguments
    stride, padding, dilation = (cast("Row", given[x]) for x in ("stride", "padding", "dilation"))
    return stride, padding, dilation
