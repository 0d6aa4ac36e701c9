"""The algorithms that can compute a gradient, and the choice among them."""

from collections.abc import Iterator, Mapping
from typing import TypeVar

from opserve_kernels.algorithms.correlation.layout import GATHER
from opserve_kernels.algorithms.correlation.plan import Correlation
from opserve_kernels.algorithms.depthwise import plan as depthwise_plan
from opserve_kernels.algorithms.direct.cost import PAIR_PRODUCTS, weight_costs
from opserve_kernels.algorithms.direct.plan import DIRECT
from opserve_kernels.algorithms.host import VARIANT
from opserve_kernels.algorithms.names import Algorithm
from opserve_kernels.algorithms.preference import preferred
from opserve_kernels.algorithms.winograd import plan as winograd_plan
from opserve_kernels.algorithms.winograd.cost import direct_cost, transformed_cost
from opserve_kernels.convolution import WIDTH, Convolution
from opserve_kernels.copy_stages import COPY_ELEMENTS
from opserve_kernels.gradients import Gradients, Product
from opserve_kernels.operator import Accuracy, PlanOptions
from opserve_kernels.product_stages import product_stages
from opserve_kernels.profiles import Profile
from opserve_kernels.shares import products_of
from opserve_kernels.tensor import DataType
from opserve_kernels.workspace import Workspace

_MOST_PHASES = 64  # phases of a stride, at most
_MOST_PADDED = 16  # padded positions, at most, as a multiple of the positions of image and output

# Winograd's error is larger, so it must be this much cheaper. Measured on Zen 4: direct sums of 16
# channels, whose costs are within 6 %, take 0.73 to 1.0 of its time.
_MARGIN = 1.1

_GIVES_UP = (Algorithm.WINOGRAD, Algorithm.PAIRS)  # for some values: needs a stage that stands in

Way = TypeVar("Way", Algorithm, Algorithm | None)

Choice = dict[Product, Algorithm | None]
"""An algorithm for each gradient; None selects PACKED or FLAT for each part of a call.

Those two add in the same order, so the choice may differ among parts. The direct algorithms of a
weight's gradient do not: one of them is chosen for all parts, whatever the number of threads.
"""


def possible(
    gradients: Gradients, profile: Profile, options: PlanOptions
) -> dict[Product, list[Algorithm]]:
    """Algorithms that can compute each gradient of a call."""
    return {
        product: [Algorithm.REFERENCE] if profile.is_reference else list(_possible(part, options))
        for product, part in _parts(gradients)
    }


def choices(
    gradients: Gradients, requested: Mapping[Product, Algorithm], options: PlanOptions
) -> list[Choice]:
    """Choices of algorithms: the fastest first, then those that mostly need less workspace.

    Requested algorithms stay in every choice.
    """
    if options.batch_consistent:
        consistent = {
            product: _batch_consistent(part, options) for product, part in _parts(gradients)
        }
        return [consistent, {product: _columns(part) for product, part in _parts(gradients)}]
    fastest = {product: _fastest(part, options) for product, part in _parts(gradients)}
    direct = {
        product: _direct(part) if fastest[product] in _GIVES_UP else fastest[product]
        for product, part in _parts(gradients)
    }
    # The last resort: columns need the least workspace and fit every geometry.
    columns = dict.fromkeys(fastest, Algorithm.COLUMNS)
    return [{**choice, **requested} for choice in (fastest, direct, columns)]


def _parts(gradients: Gradients) -> Iterator[tuple[Product, Gradients]]:
    """Each gradient as a call of its own."""
    for part in products_of(gradients):
        for product in part.products:
            yield product, part


def _possible(part: Gradients, options: PlanOptions) -> Iterator[Algorithm]:
    """Algorithms for a gradient; those with padded copies are for usual geometries only."""
    (product,) = part.products
    yield Algorithm.COLUMNS
    if not _is_compact(part.convolution):
        return
    yield from DIRECT[product]
    if depthwise_plan.fits(part):
        yield Algorithm.DEPTHWISE
    # The values of any entry of the batch can make the stages of these two leave the results to
    # direct sums. Gradients of weights sum over entries, so this changes nothing for them.
    if options.batch_consistent and product is not Product.WEIGHT:
        return
    if _has_pairs(part):
        yield Algorithm.PAIRS
    is_fast = options.accuracy is Accuracy.FAST
    # Winograd's weight gradient goes straight into its tensor; a diagonal is cut out in the
    # workspace.
    if is_fast and winograd_plan.fits(part.convolution) and not part.diagonal:
        yield Algorithm.WINOGRAD


def _has_pairs(part: Gradients) -> bool:
    """Whether BF16 operands are summed over at least two channels, or positions of a row."""
    convolution = part.convolution
    summed = convolution.output_channels
    if part.grad_output:
        summed = convolution.input_channels
    elif part.grad_weight:
        summed = convolution.output_size[WIDTH]
    operands = (one for one in (part.image, part.output, part.weight) if one)
    return VARIANT.pairs and summed > 1 and all(one.dtype is DataType.BF16 for one in operands)


def _fastest(part: Gradients, options: PlanOptions) -> Algorithm | None:
    """The fastest algorithm of a gradient; None is as in Choice."""
    ways = list(_possible(part, options))
    # Nothing else fits: the geometry would make padded copies out of all proportion.
    if ways == [Algorithm.COLUMNS]:
        return Algorithm.COLUMNS
    # Groups of one channel leave nothing for a matrix product: such calls are bound by memory.
    if Algorithm.DEPTHWISE in ways:
        return Algorithm.DEPTHWISE
    direct = _direct(part, pairs=Algorithm.PAIRS in ways)
    if Algorithm.WINOGRAD not in ways:
        return direct
    (product,) = part.products
    share = PAIR_PRODUCTS if direct is Algorithm.PAIRS else 1.0
    costs = {
        Algorithm.WINOGRAD: _MARGIN * transformed_cost(product, part.convolution),
        direct: share * direct_cost(product, part.convolution),
    }
    return _preferred(part, costs)


def _direct(part: Gradients, *, pairs: bool = False) -> Algorithm | None:
    """The best direct algorithm, with pairs if they are possible; None is as in Choice."""
    if part.grad_weight is None:
        return Algorithm.PAIRS if pairs else None
    assert part.image is not None
    assert part.output is not None
    product = Correlation(
        direction=GATHER,
        convolution=part.convolution,
        source=part.image,
        weight=part.grad_weight,
        result=part.output,
    )
    return _preferred(part, weight_costs(product, pairs=pairs))


def _batch_consistent(part: Gradients, options: PlanOptions) -> Algorithm | None:
    """The algorithm whose sums for an entry do not depend on the rest of the batch.

    A weight gradient sums over entries, so any algorithm is allowed. PACKED and FLAT sum the
    products of a result in the same order.
    """
    algorithm = _fastest(part, options)
    return _columns(part) if algorithm is Algorithm.COLUMNS else algorithm


def _columns(part: Gradients) -> Algorithm:
    """Columns whose sums for an entry do not depend on the rest of the batch."""
    return Algorithm.COLUMNS if part.grad_weight else Algorithm.COLUMNS_BY_ENTRY


def _preferred(part: Gradients, costs: Mapping[Way, float]) -> Way:
    """The cheapest algorithm; among those about as cheap, the one with the smallest workspace."""

    # The exact workspace of a choice is known only once its stages are planned.
    def workspace_bytes(algorithm: Way) -> int:
        workspace = Workspace()
        product_stages(part, algorithm, workspace)
        return workspace.size_bytes

    return preferred(costs, workspace_bytes)


def _is_compact(convolution: Convolution) -> bool:
    """Whether padded copies of image and output are not out of proportion to the tensors."""
    padded = phases = 1
    for axis, size in enumerate(convolution.input_size):
        stride, padding = convolution.stride[axis], convolution.padding[axis]
        span = (convolution.kernel_size[axis] - 1) * convolution.dilation[axis]
        # Positions of the image that the kernel reads, padding included, and phases of the stride.
        last = (convolution.output_size[axis] - 1) * stride + span
        padded *= max(size + padding, last + 1)
        phases *= stride
    positions = (convolution.input_pixels + convolution.output_pixels) // convolution.batch
    return phases <= _MOST_PHASES and padded <= _MOST_PADDED * positions + COPY_ELEMENTS
