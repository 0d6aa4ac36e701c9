"""Common parts of the calls of every operator."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from opserve_kernels.cases.case import Kind, TensorCase
from opserve_kernels.tensor import Format

Row = tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Layout of a tensor; the members are TensorCase's.

    Attributes:
        strides: Strides in elements.
        offset: Offset in elements.
        format: Format; None keeps the call's own.
    """

    strides: Row | None = None
    offset: int = 0
    format: Format | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """Members of calls of every operator.

    Attributes:
        profile: Profile of the device.
        kind: Kind of the inputs' numbers.
        layouts: Layouts by tensor, where it is not contiguous.
        tags: Tags of the case.
        source: Source of the case.
    """

    profile: str = "ascend910b"
    kind: Kind = Kind.INTEGER
    layouts: Mapping[str, Layout] = field(default_factory=dict[str, Layout])
    tags: tuple[str, ...] = ()
    source: str = ""


DEFAULT = Setting()


def placed(tensors: Mapping[str, TensorCase], setting: Setting) -> dict[str, TensorCase]:
    """The tensors with the layouts of a setting."""
    found = dict(tensors)
    for name, layout in setting.layouts.items():
        tag = layout.format or found[name].format
        found[name] = replace(found[name], strides=layout.strides, offset=layout.offset, format=tag)
    return found
