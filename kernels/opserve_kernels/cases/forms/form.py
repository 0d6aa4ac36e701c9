"""A form: a call without dtype, profile and fill."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

from opserve_kernels.cases.calls import Layout, Row, Setting
from opserve_kernels.cases.case import Case
from opserve_kernels.tensor import DataType, contiguous_strides


class Call(Protocol):
    """The geometry of a call of one operator."""

    def in_dtype(self, dtype: DataType) -> "Call":
        """The same in a dtype."""
        ...

    def case(self, setting: Setting) -> Case:
        """The call."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """A call with its variations.

    Attributes:
        name: Description of the form in a few words.
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
        return self if self.keeps_dtypes else replace(self, call=self.call.in_dtype(dtype))

    def case(self, setting: Setting) -> Case:
        """The call."""
        tags = (*setting.tags, self.name)
        return self.call.case(replace(setting, layouts=self.layouts, tags=tags))


def gapped(shape: Row) -> Row:
    """Strides of every second element, of rows that are one element longer than necessary."""
    return (*contiguous_strides((*shape[:-1], 2 * shape[-1] + 1))[:-1], 2)


def channels_last(shape: Row) -> Row:
    """Strides of N, C and spatial sizes with contiguous channels."""
    batch, channels, *spatial = shape
    step, *steps = contiguous_strides((batch, *spatial, channels))
    return (step, steps[-1], *steps[:-1])
