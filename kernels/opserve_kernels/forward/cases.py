"""Cases of the forward operators as calls: what their conformance records share."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from math import prod

from opserve_kernels.cases.case import Case
from opserve_kernels.cases.contributions import Contributions, contributions_of
from opserve_kernels.cases.sum import Products, Sum, sum_of
from opserve_kernels.forward.call import Call
from opserve_kernels.forward.rounding import adds_bias_afterwards, bias_operands
from opserve_kernels.forward.sizes import RANK_3D
from opserve_kernels.number_formats import Operands
from opserve_kernels.profiles import PROFILES
from opserve_kernels.tensor import DataType

_AXES = ("n", "c", "d", "h", "w")
_16_BITS = (DataType.FLOAT16, DataType.BF16)


def axes_of(rank: int) -> tuple[str, ...]:
    """The meaning of each axis of an image (N, C, spatial sizes)."""
    return (*_AXES[:2], *_AXES[2 + RANK_3D - rank :])


def output_sum(case: Case, call: Call, axes: tuple[str, ...]) -> Sum:
    """The sums of the output, of which the bias is one more term.

    Args:
        case: The case.
        call: The same as a call.
        axes: Meaning of each axis of the output, in the tensor's order.
    """
    computation = call.computation(case.profile)
    assert computation is not None
    steps, shape = call.steps, call.weight.shape
    channels = shape[0] // steps.groups if steps.transposed else shape[1]
    terms = channels * prod(shape[2:])
    places = call.input if steps.transposed else call.output
    products = Products(
        axes=axes,
        terms=terms + (call.bias is not None),
        multiply_adds=places.shape[0] * prod(places.shape[2:]) * prod(shape),
        passed=computation.dtype,
    )
    return sum_of(case, call.output_name, products, gradient=call.input_name)


def operands_of(case: Case, call: Call) -> Mapping[str, Operands]:
    """Roundings of input, weight and bias before they are multiplied or added."""
    computation, profile = call.computation(case.profile), PROFILES[case.profile]
    assert computation is not None
    found = dict.fromkeys((call.input_name, "weight"), computation.operands)
    if computation.dtype == DataType.FLOAT16 or computation.operands is Operands.FLOAT16:
        found["bias"] = bias_operands(call, profile)
    return {
        name: rounding
        for name, rounding in found.items()
        if name in case.inputs and rounding is not Operands.AS_GIVEN
    }


def contributing_elements(call: Call) -> int:
    """Number of elements of the output that sum any products, or have a bias."""
    if call.is_empty:
        return 0
    if call.bias is not None:
        return call.output.element_count
    axes = _contributions(call)
    return prod(call.output.shape[:2]) * prod(
        axis.large if call.steps.transposed else axis.small for axis in axes
    )


def without_second_rounding(case: Case, call: Call) -> Case:
    """The case without a bias that is added to rounded sums, whose result is no single rounding."""
    computation, profile = call.computation(case.profile), PROFILES[case.profile]
    narrow = computation is not None and computation.dtype in _16_BITS
    if call.bias is None or not narrow or not adds_bias_afterwards(call, profile):
        return case
    tensors = {name: tensor for name, tensor in case.tensors.items() if name != "bias"}
    return replace(case, tensors=tensors)


def _contributions(call: Call) -> Iterator[Contributions]:
    steps = call.steps
    small, large = call.output.shape[2:], call.input.shape[2:]
    if steps.transposed:
        small, large = large, small
    for axis, (before, _) in enumerate(steps.sides):
        yield contributions_of(
            small[axis],
            large[axis],
            call.weight.shape[2 + axis],
            steps.stride[axis],
            steps.dilation[axis],
            before,
        )
