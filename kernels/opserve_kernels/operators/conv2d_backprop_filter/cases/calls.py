"""Calls of conv2d_backprop_filter by their geometry, as cases."""

from dataclasses import dataclass, replace
from math import prod

from opserve_kernels.cases.block_calls import BlockCall
from opserve_kernels.cases.calls import DEFAULT, Setting, placed
from opserve_kernels.cases.case import Case, Fill, Value
from opserve_kernels.cases.sizing import filled
from opserve_kernels.operators.conv2d_backprop_filter.contract import DEFAULT_RESULT
from opserve_kernels.tensor import SPELLED, DataType


@dataclass(frozen=True, slots=True)
class FilterCall:
    """A call of conv2d_backprop_filter.

    Attributes:
        blocks: Its geometry.
    """

    blocks: BlockCall

    def in_dtype(self, dtype: DataType) -> "FilterCall":
        """The same call in a dtype."""
        return replace(self, blocks=replace(self.blocks, dtype=dtype))

    def case(self, setting: Setting = DEFAULT) -> Case:
        """The call."""
        blocks = self.blocks
        image = blocks.blocked(blocks.image, blocks.dtype, Fill(plain=blocks.image))
        tensors = {"input_x": image, "out_backprop": blocks.out_backprop()}
        longest = blocks.image[0] * prod(blocks.output)
        inputs = filled(tensors, setting.kind, gradient="out_backprop", longest=longest)
        weight = blocks.filters(SPELLED[blocks.result or DEFAULT_RESULT], is_result=True)
        members = blocks.para_dict()
        if blocks.groups is not None:
            members["groups"] = blocks.groups
        arguments: dict[str, Value] = {"filter_sizes": blocks.weight, "para_dict": members}
        return Case(
            operator="conv2d_backprop_filter",
            profile=setting.profile,
            tensors=placed(inputs | {"res_tensor": weight}, setting),
            arguments=arguments | ({"raw": True} if blocks.raw else {}),
            tags=setting.tags,
            source=setting.source,
        )
