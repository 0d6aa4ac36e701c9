"""TBE DSL conv2d_backprop_input: the gradient of a convolution with respect to its input."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, TypedDict

from opserve_client.schema import Schema
from opserve_client.tensors import Array, OutputArgument, TensorArgument
from opserve_kernels.operators.conv2d_backprop_input import schema as kernel_schema
from opserve_kernels.status import AnyStatus, TbeStatus


class GroupDict(TypedDict, total=False):
    """Results of the vendor's formulas for a weight's shape and its groups; see group_dict().

    Attributes:
        g_extend: Superblocks: groups / multiple_extend, rounded up.
        multiple_extend: Groups in a superblock.
        groups: Groups of channels.
        dx_c1_extend: Blocks of 16 input channels in a superblock.
        dy_c1_extend: Blocks of 16 output channels in a superblock.
        dx_c_ori: Input channels of a group.
        dy_c_ori: Output channels of a group.
        filter_batch_ori: Output channels of a group.
        filter_c_ori: Input channels of a group.
        filter_ori_format: "NCHW".
    """

    g_extend: int
    multiple_extend: int
    groups: int
    dx_c1_extend: int
    dy_c1_extend: int
    dx_c_ori: int
    dy_c_ori: int
    filter_batch_ori: int
    filter_c_ori: int
    filter_ori_format: str


class Conv2dBackpropInputParaDict(TypedDict, total=False):
    """The keys of para_dict.

    Attributes:
        strides: Steps of the kernel in height and width.
        padding: Zeros around the image: up, down, left, right.
        dilations: Distance of taps in N, C, height and width; 1 in N and C.
        res_dtype: Dtype of the result: "float16", which absent means too, or "float32".
        offset_x: Only 0 has a meaning for floating dtypes.
        offset_w: Must be None.
        kernel_name: Name of the kernel; changes nothing.
        group_dict: Result of group_dict() for a grouped convolution; absent means one group.
    """

    strides: Sequence[int]
    padding: Sequence[int]
    dilations: Sequence[int]
    res_dtype: str
    offset_x: int
    offset_w: int | None
    kernel_name: str
    group_dict: GroupDict | Mapping[str, int | str] | None


class Conv2dBackpropInputResult(NamedTuple):
    """The gradient."""

    res_tensor: Array


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Conv2dBackpropInput:
    """Arguments of the TBE DSL call conv2d_backprop_input; None means absent.

    A field without a default must be given, if only as None.

    Tensors are FLOAT16, and more on some profiles: an array of any library in host memory (for
    session.run) or a Tensor in device memory. An array of 4 dimensions counts as FRACTAL_Z, one of
    5 as NC1HWC0; to_fractal_z and to_5hd make them. Source: the vendor's page
    conv2d_backprop_input.

    Errors: TbeError E60002 to E65007, in the vendor's order of checks.

    Attributes:
        filters: The weight, FRACTAL_Z (g_extend*dx_c1_extend*KH*KW, dy_c1_extend, 16, 16).
        out_backprop: Gradient of the convolution's output, NC1HWC0 (N, C1, Ho, Wo, 16).
        filter_sizes: Cout, Cin/groups, KH, KW.
        input_sizes: N, Cin, H, W.
        para_dict: Everything else, by the vendor's keys.
        res_tensor: Output, the gradient of the input, NC1HWC0 (N, C1, H, W, 16). For None,
            session.run creates it in res_dtype; for a dtype or an array, in that dtype.
    """

    schema: ClassVar[Schema] = kernel_schema
    invalid: ClassVar[AnyStatus] = TbeStatus.E60038
    invalid_entry: ClassVar[AnyStatus] = TbeStatus.E65001
    buffer_entries: ClassVar[Mapping[str, int | None]] = {}
    functions: ClassVar[tuple[str, ...]] = ()

    filters: TensorArgument
    out_backprop: TensorArgument
    filter_sizes: Sequence[int] | None
    input_sizes: Sequence[int] | None
    para_dict: Conv2dBackpropInputParaDict | None
    res_tensor: OutputArgument = None

    def result(self, outputs: Mapping[str, Array]) -> Conv2dBackpropInputResult:
        """Returns the gradient by name."""
        return Conv2dBackpropInputResult(outputs["res_tensor"])

    def dimensions(self) -> Mapping[str, int]:
        """Returns the attributes that an integer sets in every dimension: none."""
        return {}
