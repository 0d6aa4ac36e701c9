"""TBE DSL conv2d_backprop_filter: the gradient of a convolution with respect to its weight."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, TypedDict

from opserve_client.data_types import Format, format_of_tbe, tbe_result_type
from opserve_client.errors import TBE
from opserve_client.tensors import (
    Array,
    OutputArgument,
    TensorArgument,
    TensorSpec,
    inferred_spec,
)
from opserve_kernels.formats import fractal_z_shape


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

    res_tensor: Array | None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Conv2dBackpropFilter:
    """Arguments of the TBE DSL call conv2d_backprop_filter; None is Python's.

    Tensors are FLOAT16, and more on some profiles: a NumPy array (for session.run) or a Tensor in
    device memory. An array of 5 dimensions counts as NC1HWC0, one of 4 as FRACTAL_Z; to_5hd makes
    the inputs, and from_fractal_z reads the result. Source: the vendor's page
    conv2d_backprop_filter.

    Errors: TbeError E60005 to E64004, in the vendor's order of checks.

    Attributes:
        input_x: The convolution's input, NC1HWC0 (N, C1, H, W, 16).
        out_backprop: Gradient of the convolution's output, NC1HWC0 (N, C1, Ho, Wo, 16).
        filter_sizes: Cout, Cin/groups, KH, KW.
        para_dict: Everything else, by the vendor's keys; None means its defaults.
        raw: Whether blocks between different groups hold what the device computes there; None and
            False mean zeros.
        res_tensor: Output, the gradient of the weight, FRACTAL_Z (real_g*cin1_g*KH*KW, cout_g/16,
            16, 16). session.run makes it when it is None, in res_dtype, and takes a dtype or an
            array as a wish.
    """

    vendor_name: ClassVar[str] = "conv2d_backprop_filter"
    domain: ClassVar[str] = TBE
    buffer_entries: ClassVar[Mapping[str, int | None]] = {}
    entry_status: ClassVar[tuple[int, str] | None] = (64004, "E64004")
    functions: ClassVar[tuple[str, ...]] = ()

    input_x: TensorArgument = None
    out_backprop: TensorArgument = None
    filter_sizes: Sequence[int] | None = None
    para_dict: Conv2dBackpropFilterParaDict | None = None
    raw: bool | None = None
    res_tensor: OutputArgument = None

    def asked_outputs(self) -> tuple[str, ...]:
        """The gradient, always."""
        return ("res_tensor",)

    def infer_outputs(self) -> Mapping[str, TensorSpec]:
        """The gradient; left out where malformed arguments leave it open."""
        para_dict = self.para_dict or {}
        dtype = tbe_result_type(para_dict.get("res_dtype", "float32"))
        groups = para_dict.get("groups", 1)
        if self.filter_sizes is None or dtype is None:
            return {}
        try:
            shape = fractal_z_shape(tuple(self.filter_sizes), groups)
        except ValueError:
            return {}
        spec = inferred_spec(shape, dtype, Format.FRACTAL_Z)
        return {} if spec is None else {"res_tensor": spec}

    def array_format(self, rank: int) -> Format:
        """FRACTAL_Z for rank 4, NC1HWC0 for rank 5, else ND."""
        return format_of_tbe(rank)

    def result(self, outputs: Mapping[str, Array]) -> Conv2dBackpropFilterResult:
        """The gradient by its name."""
        return Conv2dBackpropFilterResult(outputs.get("res_tensor"))
