"""A breach of each rule of im2col."""

from collections.abc import Mapping

from opserve_kernels.cases.refusals.changes import Breach, Row
from opserve_kernels.operators.im2col.cases.calls import UnfoldCall
from opserve_kernels.tensor import DataType

_BASE = UnfoldCall(image=(2, 3, 6, 7), kernel=(3, 2)).case()
_TENSORS = ("self", "out")
_ARRAYS = ("kernel_size", "dilation", "padding", "stride")


def breaches() -> Mapping[Row, Breach]:
    """Breaches by parameter and words of the rule."""
    changes: dict[Row, dict[str, object]] = {
        **{(name, "missing"): {name: None} for name in (*_TENSORS, *_ARRAYS)},
        **{
            (name, "dtype is not FLOAT, FLOAT16, BF16 or, on reference, DOUBLE"): {
                f"{name}.dtype": DataType.INT32
            }
            for name in _TENSORS
        },
        **{(name, "not two values"): {name: (1, 1, 1)} for name in _ARRAYS},
        ("self", "not 3 or 4 dimensions"): {"self.shape": (1, 2, 3, 6, 7)},
        ("self", "a size but the number of entries is 0"): {
            "self.shape": (2, 0, 6, 7),
            "out.shape": (2, 0, 24),
        },
        ("kernel_size", "a value below 1"): {"kernel_size": (3, 0)},
        ("stride", "a value below 1"): {"stride": (0, 1)},
        ("dilation", "a value below 1"): {"dilation": (1, 0)},
        ("padding", "a negative value"): {"padding": (-1, 0)},
        ("kernel_size", "a block does not fit on the padded image"): {"dilation": (3, 1)},
        ("out", "shape is not that of the columns"): {"out.shape": (2, 18, 25)},
    }
    return {row: Breach(case=_BASE, changes=change) for row, change in changes.items()}
