"""{fp,hp}_deconv_grad_filter_{s,p}: the gradient of a deconvolution with respect to its weight."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from opserve_client.schema import Schema
from opserve_client.tensors import Array, DeviceBuffer, OutputArgument, TensorArgument
from opserve_kernels.operators.deconv_grad_filter import schema as kernel_schema
from opserve_kernels.status import AnyStatus, DeconvStatus


class DeconvGradFilterResult(NamedTuple):
    """The gradient."""

    dw_data: Array


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DeconvGradFilter:
    """Arguments of {fp,hp}_deconv_grad_filter_{s,p}; None means absent.

    A field without a default must be given, if only as None.

    The numbers come from `param`, or from the fields of the same names, but not from both. Tensors
    are FLOAT (fp) or FLOAT16 (hp): an array of any library in host memory (for session.run) or a
    Tensor in device memory.
    Source: the vendor's page DeconvGradFilter.

    Errors: DeconvError 1, an argument is missing; 2, a shape or value breaks a rule; 3, the profile
    does not support the dtype.

    Attributes:
        dy_data: Gradient of the deconvolution's output (batch, out_h, out_w, out_c).
        x_data: The deconvolution's input (input_batch, in_h, in_w, in_c).
        dw_data: Output, the gradient of the weight (group, out_c/group*kernel_h*kernel_w,
            in_c/group). For None, session.run creates it in x_data's dtype; for a dtype or an
            array, in that dtype.
        param: The vendor's array: 18 to 20 entries in the order of the fields below; the last one,
            temp_space, may be a Buffer.
        core_mask: Cores to run on, one bit each; only for the _s functions.
        function: The function, "fp_deconv_grad_filter_s" and so on; None means fp or hp by
            dy_data's dtype, and _s if there is a core_mask, else _p.
        input_batch: Entries of x_data; None means its shape's, as for the next seven.
        in_h: Height of x_data.
        in_w: Width of x_data.
        in_c: Channels of x_data.
        batch: Entries of dy_data.
        out_h: Height of dy_data.
        out_w: Width of dy_data.
        out_c: Channels of dy_data.
        kernel_h: Height of the kernel.
        kernel_w: Width of the kernel.
        stride_h: Step in height; None means 1, as for stride_w.
        stride_w: Step in width.
        pad_u: Padding above; None means 0, as for pad_l.
        pad_l: Padding on the left.
        dilation_h: Distance of taps in height; None means 1, as for dilation_w.
        dilation_w: Distance of taps in width.
        group: Groups of channels; None means 1.
        temp_space: A Buffer, its handle or 0; opserve does not use it; None means 0.
        row_order: Order of a group's rows in dw_data: "oc_kh_kw", which None means, or "kh_kw_oc".
    """

    schema: ClassVar[Schema] = kernel_schema
    invalid: ClassVar[AnyStatus] = DeconvStatus.DECONV_PARAM_INVALID
    invalid_entry: ClassVar[AnyStatus] = DeconvStatus.DECONV_PARAM_INVALID
    buffer_entries: ClassVar[Mapping[str, int | None]] = {
        "param": kernel_schema.PARAM_FIELDS.index("temp_space"),
        "temp_space": None,
    }
    functions: ClassVar[tuple[str, ...]] = kernel_schema.FUNCTIONS

    dy_data: TensorArgument
    x_data: TensorArgument
    dw_data: OutputArgument = None
    param: Sequence[int | DeviceBuffer] | None = None
    core_mask: int | None = None
    function: str | None = None
    input_batch: int | None = None
    in_h: int | None = None
    in_w: int | None = None
    in_c: int | None = None
    batch: int | None = None
    out_h: int | None = None
    out_w: int | None = None
    out_c: int | None = None
    kernel_h: int | None = None
    kernel_w: int | None = None
    stride_h: int | None = None
    stride_w: int | None = None
    pad_u: int | None = None
    pad_l: int | None = None
    dilation_h: int | None = None
    dilation_w: int | None = None
    group: int | None = None
    temp_space: int | DeviceBuffer | None = None
    row_order: str | None = None

    def result(self, outputs: Mapping[str, Array]) -> DeconvGradFilterResult:
        """Returns the gradient by name."""
        return DeconvGradFilterResult(outputs["dw_data"])

    def dimensions(self) -> Mapping[str, int]:
        """Returns the attributes that an integer sets in every dimension: none."""
        return {}
