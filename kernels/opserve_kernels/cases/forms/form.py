"""A form: a call whose dtype, profile and fill are left open."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from opserve_kernels.cases.block_calls import BlockCall, DeconvolutionCall
from opserve_kernels.cases.calls import ConvolutionCall, FoldCall, Layout, Row, Setting
from opserve_kernels.cases.case import Case
from opserve_kernels.tensor import DataType, contiguous_strides

Call = ConvolutionCall | FoldCall | BlockCall | DeconvolutionCall


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """What a case tries.

    Attributes:
        name: What is tried, in a few words.
        call: The geometry.
        layouts: Of tensors that are not contiguous.
        keeps_dtypes: Whether the dtypes are those of the call itself.
        is_limit: Whether it is at a documented limit.
    """

    name: str
    call: Call
    layouts: Mapping[str, Layout] = field(default_factory=dict[str, Layout])
    keeps_dtypes: bool = False
    is_limit: bool = False

    def in_dtype(self, dtype: DataType) -> "Form":
        """The same in a dtype."""
        if self.keeps_dtypes:
            return self
        match self.call:
            case ConvolutionCall() as call:
                return replace(self, call=replace(call, dtypes=(dtype,) * 3))
            case FoldCall() as call:
                return replace(self, call=replace(call, dtypes=(dtype, dtype)))
            case DeconvolutionCall() | BlockCall() as call:
                return replace(self, call=replace(call, dtype=dtype))

    def case(self, operator: str, setting: Setting) -> Case:
        """The call."""
        setting = replace(setting, layouts=self.layouts, tags=(*setting.tags, self.name))
        match self.call:
            case BlockCall() as call if operator == "conv2d_backprop_input":
                return call.input_case(setting)
            case BlockCall() as call:
                return call.filter_case(setting)
            case call:
                return call.case(setting)


def gapped(shape: Row) -> Row:
    """Strides of every second element of rows that are one longer than it takes."""
    return (*contiguous_strides((*shape[:-1], 2 * shape[-1] + 1))[:-1], 2)


def channels_last(shape: Row) -> Row:
    """Strides of N, C and spatial sizes where channels are neighbours."""
    batch, channels, *spatial = shape
    step, *steps = contiguous_strides((batch, *spatial, channels))
    return (step, steps[-1], *steps[:-1])
