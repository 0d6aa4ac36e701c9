"""Phase one of deconv_grad_filter: the rules, then the weight gradient of a convolution.

The deconvolution is the adjoint of a convolution that reads images of dy_data's size and writes
images of x_data's. Its weight gradient is that convolution's, with dy_data as the image X and
x_data as the output Y.
"""

from dataclasses import replace

from opserve_kernels.convolution import Convolution
from opserve_kernels.gradient_plan import plan_gradients
from opserve_kernels.gradients import Gradients, Operand
from opserve_kernels.number_formats import FLOAT, result_format
from opserve_kernels.operator import NamedBuffer, Plan, PlanOptions
from opserve_kernels.operators.deconv_grad_filter.call import (
    OC_KH_KW,
    Call,
)
from opserve_kernels.operators.deconv_grad_filter.checks import check
from opserve_kernels.operators.deconv_grad_filter.contract import DOCUMENTED_RULES, RULES
from opserve_kernels.operators.deconv_grad_filter.schema import DeconvGradFilter
from opserve_kernels.page_rules import PageRules
from opserve_kernels.profiles import Profile
from opserve_kernels.status import DeconvStatus
from opserve_kernels.tensor import Tensor, check_tensor

_DY_DATA, _X_DATA, _DW_DATA = range(3)  # places of the tensors in the schema


def plan(arguments: DeconvGradFilter, profile: Profile, options: PlanOptions) -> Plan:
    """Checks a call and plans it; its mask of cores makes no difference.

    Raises:
        InvalidArgument: A rule is broken; see README.md.
    """
    # Malformed tensors are rejected (161002) first; dw_data later, as it may still be missing.
    for name, tensor in (("dy_data", arguments.dy_data), ("x_data", arguments.x_data)):
        if tensor is not None:
            check_tensor(name, tensor, buffer_bytes=None)
    page = PageRules(RULES, profile.name, DOCUMENTED_RULES, options.documented_rules)
    call = check(arguments, profile, page)
    # temp_space is only checked for size and life: no kernel reads or writes it.
    planned = plan_gradients(_gradients(call, profile), profile, options)
    return page.with_warnings(replace(planned, buffers=_named_buffers(call)))


def _gradients(call: Call, profile: Profile) -> Gradients:
    # As the adjoint of a convolution: dy_data is the larger image that the kernel moves over,
    # x_data has one position for each place of the kernel.
    return Gradients(
        convolution=Convolution(
            batch=call.batch,
            groups=call.group,
            input_channels=call.out_channels,
            output_channels=call.in_channels,
            input_size=(1, call.out_h, call.out_w),
            output_size=(1, call.in_h, call.in_w),
            kernel_size=(1, call.kernel_h, call.kernel_w),
            stride=(1, call.stride_h, call.stride_w),
            padding=(0, call.pad_u, call.pad_l),
            dilation=(1, call.dilation_h, call.dilation_w),
        ),
        image=_image(call.dy_data, _DY_DATA),
        output=_image(call.x_data, _X_DATA),
        grad_weight=_weight(call, profile),
    )


def _image(tensor: Tensor, place: int) -> Operand:
    """An NHWC image, channels first."""
    batch, height, width, channels = zip(tensor.shape, tensor.element_strides, strict=True)
    return Operand(
        place=place,
        dtype=tensor.dtype,
        offset=tensor.offset,
        parts=((channels,), (batch, height, width)),
        number_format=FLOAT,
    )


def _weight(call: Call, profile: Profile) -> Operand:
    """Rows, of out_c and taps in the row order, are between group and in_c."""
    tensor = call.dw_data
    group_step, row_step, in_step = tensor.element_strides
    # The page gives the rows of a group only as a product of three numbers. MindSpore Lite's kernel
    # of the same name has the taps innermost, which is the default.
    taps = call.kernel_h * call.kernel_w
    if call.row_order == OC_KH_KW:
        out_step, tap_step = taps * row_step, row_step
    else:
        out_step, tap_step = row_step, call.out_channels * row_step
    return Operand(
        place=_DW_DATA,
        dtype=tensor.dtype,
        offset=tensor.offset,
        parts=(
            ((call.group, group_step),),
            ((call.in_channels, in_step),),
            ((call.out_channels, out_step),),
            ((taps, tap_step),),
        ),
        number_format=result_format(FLOAT, tensor.dtype, saturates=profile.saturates),
    )


def _named_buffers(call: Call) -> tuple[NamedBuffer, ...]:
    if call.temp_space == 0:
        return ()
    return (
        NamedBuffer(
            parameter="temp_space",
            handle=call.temp_space,
            size_bytes=call.temp_space_bytes,
            status=DeconvStatus.DECONV_PARAM_INVALID,
        ),
    )
