"""Calls of conv2d_backprop_input by their geometry, as cases."""

from dataclasses import dataclass, replace
from math import prod

from opserve_kernels.cases.block_calls import BlockCall
from opserve_kernels.cases.calls import DEFAULT, Setting, placed
from opserve_kernels.cases.case import Case
from opserve_kernels.cases.sizing import filled
from opserve_kernels.formats import group_dict
from opserve_kernels.operators.conv2d_backprop_input.contract import DEFAULT_RESULT
from opserve_kernels.tensor import SPELLED, DataType


@dataclass(frozen=True, slots=True)
class InputCall:
    """A call of conv2d_backprop_input.

    Attributes:
        blocks: Its geometry.
    """

    blocks: BlockCall

    def in_dtype(self, dtype: DataType) -> "InputCall":
        """The same call in a dtype."""
        return replace(self, blocks=replace(self.blocks, dtype=dtype))

    def case(self, setting: Setting = DEFAULT) -> Case:
        """The call."""
        blocks = self.blocks
        tensors = {
            "filters": blocks.filters(blocks.dtype),
            "out_backprop": blocks.out_backprop(),
        }
        longest = blocks.weight[0] // (blocks.groups or 1) * prod(blocks.weight[2:])
        result = blocks.blocked(blocks.image, SPELLED[blocks.result or DEFAULT_RESULT])
        inputs = filled(
            tensors, setting.kind, gradient="out_backprop", weight="filters", longest=longest
        )
        members = blocks.para_dict()
        if blocks.groups is not None:
            members["group_dict"] = group_dict(blocks.weight, blocks.groups)
        return Case(
            operator="conv2d_backprop_input",
            profile=setting.profile,
            tensors=placed(inputs | {"res_tensor": result}, setting),
            arguments={
                "filter_sizes": blocks.weight,
                "input_sizes": blocks.image,
                "para_dict": members,
            },
            tags=setting.tags,
            source=setting.source,
        )
