"""The vendor's unit tests of aclnnConvTbcBackward's phase one: shapes, dtypes and codes, no more.

Rows of hicann/ops-nn that have an expected code on Ascend910B, but for dtypes that opserve lacks.
"""

from dataclasses import dataclass, replace
from typing import Any

from kernels.samples.conv_tbc_backward import tbc
from kernels.samples.sample import Sample
from opserve_kernels.status import AnyStatus, Status
from opserve_kernels.tensor import DataType, Format

FLOAT, FLOAT16 = DataType.FLOAT, DataType.FLOAT16
NULL, INVALID = Status.ACLNN_ERR_PARAM_NULLPTR, Status.ACLNN_ERR_PARAM_INVALID
_TENSORS = ("self", "input", "weight", "bias", "grad_input", "grad_weight", "grad_bias")
_IMAGES = ("self", "input", "weight", "grad_input", "grad_weight")


@dataclass(frozen=True, slots=True, kw_only=True)
class VendorCall:
    """A call of a unit test; status None means that it is accepted.

    Attributes:
        sample: The call.
        status: The code that it must be refused with.
        parameter: The parameter that the refusal must name, as the order of the source has it.
    """

    sample: Sample
    status: AnyStatus | None = None
    parameter: str = ""


def _call(title: str, dtype: DataType, **tags: Format) -> Sample:
    layout: dict[str, Any] = {name: {"format": Format.NCL} for name in _IMAGES}
    layout |= {name: {"format": tag} for name, tag in tags.items()}
    return tbc(title, (5, 1, 2), (1, 2, 2), dtypes=(dtype,) * 4, cube_math_type=1, layout=layout)


def _without(name: str) -> VendorCall:
    nothing: dict[str, Any] = {name: None}
    sample = _call("FLOAT", FLOAT).but(f"null {name}", **nothing)
    return VendorCall(sample=sample, status=NULL, parameter=name)


def _no_entries() -> Sample:
    sample = _call("an input without entries", FLOAT16)
    image = sample.inputs["input"]
    return sample.but(sample.name, input=replace(image, shape=(5, 0, 2)))


_NCHW_INPUT = {"input": Format.NCHW, "bias": Format.NCL, "grad_bias": Format.NCL}
TBC_BACKWARD = (
    VendorCall(sample=_call("FLOAT16", FLOAT16)),
    VendorCall(sample=_call("FLOAT", FLOAT)),
    *(_without(name) for name in _TENSORS[:4]),
    *(
        VendorCall(sample=_call(f"{dtype}", dtype), status=INVALID, parameter="self")
        for dtype in (DataType.DOUBLE, DataType.INT32)
    ),
    VendorCall(
        sample=_call("format NCHW", FLOAT16, **_NCHW_INPUT), status=INVALID, parameter="input"
    ),
    VendorCall(sample=_call("format ND", FLOAT16, **dict.fromkeys(_IMAGES, Format.ND))),
    VendorCall(sample=_call("gradients in ND", FLOAT16, **dict.fromkeys(_IMAGES[3:], Format.ND))),
    VendorCall(sample=_no_entries(), status=INVALID, parameter="self"),
)
