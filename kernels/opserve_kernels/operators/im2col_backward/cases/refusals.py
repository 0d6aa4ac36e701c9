"""A breach of each rule of im2col_backward."""

from collections.abc import Mapping

from opserve_kernels.cases.calls import Setting
from opserve_kernels.cases.refusals.changes import Breach
from opserve_kernels.operators.im2col_backward.cases.calls import FoldCall
from opserve_kernels.tensor import DataType

_CALL = FoldCall(out=(2, 3, 6, 7), kernel=(3, 2))
_BASE = _CALL.case()
_TENSORS = ("grad_output", "out")
_ARRAYS = ("input_size", "kernel_size", "dilation", "padding", "stride")


def breaches() -> Mapping[tuple[str, str], Breach]:
    """Breaches by parameter and words of the rule."""
    older = _CALL.case(Setting(profile="ascend910"))
    changes: dict[tuple[str, str], dict[str, object]] = {
        **{(name, "missing"): {name: None} for name in (*_TENSORS, *_ARRAYS)},
        **{
            (name, "dtype is not FLOAT, FLOAT16, BF16 or, on reference, DOUBLE"): {
                f"{name}.dtype": DataType.INT32
            }
            for name in _TENSORS
        },
        **{(name, "not two values"): {name: (1, 1, 1)} for name in _ARRAYS},
        ("grad_output", "not 2 or 3 dimensions"): {"grad_output.shape": (2, 3, 6, 20)},
        ("out", "not one dimension more than grad_output"): {"out.shape": (3, 6, 7)},
        ("kernel_size", "a value below 1"): {"kernel_size": (3, 0)},
        ("stride", "a value below 1"): {"stride": (0, 1)},
        ("dilation", "a value below 1"): {"dilation": (1, 0)},
        ("padding", "a negative value"): {"padding": (-1, 0)},
        ("grad_output", "rows are not a multiple of a block's elements"): {
            "grad_output.shape": (2, 17, 24)
        },
        ("kernel_size", "a block does not fit on the padded image"): {"dilation": (3, 1)},
        ("grad_output", "columns are not the positions of the blocks"): {"stride": (2, 1)},
        ("out", "shape is not that of the image"): {"out.shape": (2, 3, 7, 6)},
        ("input_size", "a value below 1"): {
            "input_size": (0, 7),
            "padding": (3, 0),
            "out.shape": (2, 3, 0, 7),
        },
    }
    found = {row: Breach(case=_BASE, changes=change) for row, change in changes.items()}
    for name in _TENSORS:
        narrow = Breach(case=older, changes={f"{name}.dtype": DataType.BF16})
        found[name, "dtype is BF16 on ascend910"] = narrow
    return found
