"""TBE DSL conv2d_backprop_filter: the gradient of a convolution with respect to its weight."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, TypedDict

from opserve_client.schema import Schema
from opserve_client.tensors import Array, OutputArgument, TensorArgument
from opserve_kernels.operators.conv2d_backprop_filter import schema as kernel_schema
from opserve_kernels.status import AnyStatus, TbeStatus


class Conv2dBackpropFilterParaDict(TypedDict, total=False):
    """The keys of para_dict.

    Attributes:
        strides: Steps of the kernel in height and width; absent means 1, 1.
        padding: Zeros around the image: up, down, left, right; absent means none.
        dilations: Distance of taps in N, C, height and width; absent means ones.
        groups: Groups of channels; absent means 1.
        res_dtype: Dtype of the result: "float32", which absent means too.
        kernel_name: Name of the kernel; changes nothing.
    """

    strides: Sequence[int]
    padding: Sequence[int]
    dilations: Sequence[int]
    groups: int
    res_dtype: str
    kernel_name: str


class Conv2dBackpropFilterResult(NamedTuple):
    """The gradient."""

    res_tensor: Array


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Conv2dBackpropFilter:
    """Arguments of the TBE DSL call conv2d_backprop_filter; None means absent.

    A field without a default must be given, if only as None.

    Tensors are FLOAT16, and more on some profiles: an array of any library in host memory (for
    session.run) or a Tensor in device memory. An array of 5 dimensions counts as NC1HWC0, one of 4
    as FRACTAL_Z; to_5hd makes the inputs, and from_fractal_z reads the result. Source: the vendor's
    page conv2d_backprop_filter.

    Errors: TbeError E60005 to E64004, in the vendor's order of checks.

    Attributes:
        input_x: The convolution's input, NC1HWC0 (N, C1, H, W, 16).
        out_backprop: Gradient of the convolution's output, NC1HWC0 (N, C1, Ho, Wo, 16).
        filter_sizes: Cout, Cin/groups, KH, KW.
        para_dict: Everything else, by the vendor's keys; None means its defaults.
        raw: Whether blocks between different groups keep the values that a device computes there;
            None and False mean zeros.
        res_tensor: Output, the gradient of the weight, FRACTAL_Z (real_g*cin1_g*KH*KW, cout_g/16,
            16, 16). For None, session.run creates it in res_dtype; for a dtype or an array, in that
            dtype.
    """

    schema: ClassVar[Schema] = kernel_schema
    invalid: ClassVar[AnyStatus] = TbeStatus.E60038
    invalid_entry: ClassVar[AnyStatus] = TbeStatus.E64004
    buffer_entries: ClassVar[Mapping[str, int | None]] = {}
    functions: ClassVar[tuple[str, ...]] = ()

    input_x: TensorArgument
    out_backprop: TensorArgument
    filter_sizes: Sequence[int] | None
    para_dict: Conv2dBackpropFilterParaDict | None = None
    raw: bool | None = None
    res_tensor: OutputArgument = None

    def result(self, outputs: Mapping[str, Array]) -> Conv2dBackpropFilterResult:
        """Returns the gradient by name."""
        return Conv2dBackpropFilterResult(outputs["res_tensor"])

    def dimensions(self) -> Mapping[str, int]:
        """Returns the attributes that an integer sets in every dimension: none."""
        return {}
