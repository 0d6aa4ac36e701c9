"""The vendor's unit tests of aclnnIm2col's phase one: shapes, dtypes and codes, no more.

All 25 rows of hicann/ops-math (c4193324) that run for Ascend910B, which has no other product's.
"""

from dataclasses import dataclass
from typing import Any

from kernels.samples.sample import Sample, TensorSample
from opserve_kernels.status import AnyStatus, Status
from opserve_kernels.tensor import DataType, Format

FLOAT, FLOAT16, BF16 = DataType.FLOAT, DataType.FLOAT16, DataType.BF16
NULL, INVALID = Status.ACLNN_ERR_PARAM_NULLPTR, Status.ACLNN_ERR_PARAM_INVALID
Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class VendorUnfold:
    """A call of a unit test; status None means that it is accepted.

    Attributes:
        sample: The call.
        status: The code that it must be refused with.
        parameter: The parameter that the refusal must name, as the order of the source has it.
    """

    sample: Sample
    status: AnyStatus | None
    parameter: str = ""


_IMAGE, _COLUMNS = (1, 2, 2, 3), (1, 8, 4)
_FOUR: dict[str, Any] = {
    "kernel_size": (2, 2),
    "dilation": (1, 1),
    "padding": (1, 1),
    "stride": (2, 2),
}
_ALL_TWO: dict[str, Any] = dict.fromkeys(_FOUR, (2, 2))


def _row(
    title: str, image: Shape = _IMAGE, columns: Shape = _COLUMNS, **changes: Any
) -> VendorUnfold:
    """Both tensors have one dtype; `tag` and `strides` are self's, `refused` names a parameter."""
    dtype, refused = changes.pop("dtype", FLOAT), changes.pop("refused", "")
    tag, strides = changes.pop("tag", Format.ND), changes.pop("strides", None)
    tensors = {
        "self": TensorSample(shape=image, dtype=dtype, format=tag, strides=strides),
        "out": TensorSample(shape=columns, dtype=dtype),
    }
    sample = Sample(name=title, operator="im2col", tensors=tensors, scalars=_FOUR | changes)
    return VendorUnfold(sample=sample, status=INVALID if refused else None, parameter=refused)


def _null(name: str) -> VendorUnfold:
    row = _row(f"null {name}", dtype=FLOAT16, tag=Format.NHWC, refused=name)
    nothing: dict[str, Any] = {name: None}
    return VendorUnfold(
        sample=row.sample.but(f"null {name}", **nothing), status=NULL, parameter=name
    )


UNFOLDS: tuple[VendorUnfold, ...] = (
    _row("FLOAT"),
    _row("FLOAT16", dtype=FLOAT16),
    _row("BF16", dtype=BF16),
    _row("DOUBLE", dtype=DataType.DOUBLE, refused="self"),
    _row("values in -1 to 1"),
    _row("3-D", (2, 2, 3), (8, 4)),
    _row(
        "not contiguous",
        (1, 3, 4),
        (1, 12),
        strides=(12, 1, 3),
        kernel_size=(1, 1),
        padding=(0, 0),
        stride=(1, 1),
    ),
    _row("NHWC", dtype=FLOAT16, tag=Format.NHWC),
    _row("a negative size", (0, -2, 2, 3), refused="self.shape", **_ALL_TWO),
    *(
        _row(f"{name} of three values", refused=name, **(_ALL_TWO | {name: (4, 5, 1)}))
        for name in _FOUR
    ),
    *(_row(f"negative {name}", refused=name, **(_ALL_TWO | {name: (-1, -1)})) for name in _FOUR),
    *(_null(name) for name in ("self", *_FOUR, "out")),
    _row("block too large", kernel_size=(5, 5), refused="kernel_size"),
    _row("rows of out", columns=(1, 10, 4), refused="out"),
)
