"""The calls of the TBE DSL that opserve supports, with the vendor's arguments and result shapes."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from opserve_client.arguments import shown
from opserve_client.errors import invalid_argument
from opserve_client.operators import OperatorCall, ResultT_co
from opserve_client.operators.conv2d_backprop_filter import (
    Conv2dBackpropFilter,
    Conv2dBackpropFilterParaDict,
)
from opserve_client.operators.conv2d_backprop_input import (
    Conv2dBackpropInput,
    Conv2dBackpropInputParaDict,
)
from opserve_client.tbe.tensors import ComputeOp, Tensor, placeholder_elements
from opserve_kernels.formats import superblocks
from opserve_kernels.status import TbeStatus

_WITHOUT_DEFAULT = ("strides", "padding", "dilations")


class Runner(Protocol):
    """The part of a blocking session that the calls use."""

    def run(self, call: OperatorCall[ResultT_co]) -> ResultT_co:
        """Runs an operator on arrays."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Dsl:
    """The calls, which run at once.

    Attributes:
        session: Session for the calls.
    """

    session: Runner

    def calls(self) -> Mapping[str, Callable[..., Tensor]]:
        """Returns the calls by the vendor's names."""
        return {
            "conv2d_backprop_input": self.conv2d_backprop_input,
            "conv2d_backprop_filter": self.conv2d_backprop_filter,
        }

    def conv2d_backprop_input(
        self,
        filters: Tensor,
        out_backprop: Tensor,
        filter_sizes: Sequence[int],
        input_sizes: Sequence[int],
        para_dict: Conv2dBackpropInputParaDict,
    ) -> Tensor:
        """Computes the gradient of a convolution with respect to its input.

        Args:
            filters: The weight, FRACTAL_Z (g_extend*dx_c1_extend*KH*KW, dy_c1_extend, 16, 16).
            out_backprop: Gradient of the convolution's output, NC1HWC0 (N, C1, Ho, Wo, 16).
            filter_sizes: Cout, Cin/groups, KH, KW.
            input_sizes: N, Cin, H, W.
            para_dict: strides, padding and dilations, which have no defaults, and the other keys
                of Conv2dBackpropInput.

        Returns:
            The gradient (N, C1, H*W, C0).

        Raises:
            TbeError: The call breaks a rule; the code is the vendor's E-code.
            TypeError: strides, padding or dilations are missing, as in the vendor's function.
        """
        call = Conv2dBackpropInput(
            filters=placeholder_elements(filters, parameter="filters"),
            out_backprop=placeholder_elements(out_backprop, parameter="out_backprop"),
            filter_sizes=filter_sizes,
            input_sizes=input_sizes,
            para_dict=para_dict,
        )
        _check_is_dict(para_dict)
        _check_all_given(para_dict)
        image = self.session.run(call).res_tensor
        batch, blocks, height, width, lanes = image.shape
        elements = image.reshape(batch, blocks, height * width, lanes)
        return Tensor(op=ComputeOp(name="conv2d_backprop_input"), elements=elements)

    def conv2d_backprop_filter(
        self,
        input_x: Tensor,
        out_backprop: Tensor,
        filter_sizes: Sequence[int],
        para_dict: Conv2dBackpropFilterParaDict,
    ) -> Tensor:
        """Computes the gradient of a convolution with respect to its weight.

        Args:
            input_x: The convolution's input, NC1HWC0 (N, C1, H, W, 16).
            out_backprop: Gradient of the convolution's output, NC1HWC0 (N, C1, Ho, Wo, 16).
            filter_sizes: Cout, Cin/groups, KH, KW.
            para_dict: The keys of Conv2dBackpropFilter; each has a default.

        Returns:
            The gradient (real_g, cin1_g*KH*KW, cout_g, 16): the memory of FRACTAL_Z, with zeros
            between different groups.

        Raises:
            TbeError: The call breaks a rule; the code is the vendor's E-code.
        """
        call = Conv2dBackpropFilter(
            input_x=placeholder_elements(input_x, parameter="input_x"),
            out_backprop=placeholder_elements(out_backprop, parameter="out_backprop"),
            filter_sizes=filter_sizes,
            para_dict=para_dict,
        )
        _check_is_dict(para_dict)
        weight = self.session.run(call).res_tensor
        groups = para_dict.get("groups")
        real_g = superblocks(tuple(filter_sizes), 1 if groups is None else groups).count
        rows, blocks, block, lanes = weight.shape
        elements = weight.reshape(real_g, rows // real_g, blocks * block, lanes)
        return Tensor(op=ComputeOp(name="conv2d_backprop_filter"), elements=elements)


def _check_is_dict(para_dict: object) -> None:
    if not isinstance(para_dict, Mapping):
        raise invalid_argument("para_dict", shown(para_dict), "a dict", status=TbeStatus.E60038)


def _check_all_given(para_dict: Conv2dBackpropInputParaDict) -> None:
    """Raises TypeError, as the vendor's code does, for a missing key without a default."""
    missing = [key for key in _WITHOUT_DEFAULT if para_dict.get(key) is None]
    if missing:
        raise TypeError(
            f"para_dict lacks {', '.join(missing)}; conv2d_backprop_input has no default for "
            f"{', '.join(_WITHOUT_DEFAULT)}"
        )
