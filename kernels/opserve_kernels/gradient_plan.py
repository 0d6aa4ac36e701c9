"""Plans of a convolution's gradients: the stages of a call and the workspace that they share."""

from collections.abc import Sequence
from typing import NamedTuple

from opserve_kernels.convolution import Convolution
from opserve_kernels.exact_plan import plan_exactly, plan_zeros_exactly
from opserve_kernels.gradients import Diagonal, Gradients, Operand
from opserve_kernels.operator import Plan
from opserve_kernels.profiles import Profile
from opserve_kernels.stages import Stage, pack_stages
from opserve_kernels.workspace import Workspace

# Kinds of stages; those of opserve_kernels.exact_plan have other numbers.
FILL, LOAD, STORE, SUM_CHANNELS, SCATTER_IMAGE, GATHER_OUTPUT, GATHER_WEIGHT, KEEP_DIAGONAL = range(
    8
)

_COPY_ELEMENTS = 1 << 16  # elements that one unit copies, about 0.1 ms
_PIXEL_TILE = (
    512  # columns of a block: two rows of it and of its product stay in the first-level cache
)
_BLOCK_ELEMENTS = 1 << 15  # a block of columns: 128 KiB, so that it stays in the second-level cache
_PRODUCT_ELEMENTS = 1 << 17  # a block's product with all channels of the other side: 512 KiB
_SUM_ELEMENTS = 1 << 12  # elements that are summed in lanes at a time
_LANES = 64  # partial sums: opserve_kernels.sums.LANES
_PRODUCT_PARTS = 5  # the parts of the workspace that a product reads or writes
_GROUP, _OUTPUT_CHANNEL, _INPUT_CHANNEL, _TAP = range(4)  # parts of a weight


def plan_gradients(gradients: Gradients, profile: Profile) -> Plan:
    """The plan of a call that sums something: channel sums first, then input, then weight."""
    if profile.exact:
        return plan_exactly(gradients)
    workspace = Workspace()
    parts = _reserve(gradients, workspace)
    stages = [
        *_sum_stages(gradients, parts),
        *_load_stages(gradients, parts),
        *_image_stages(gradients, parts),
        *_output_stages(gradients, parts),
        *_weight_stages(gradients, parts),
    ]
    return _plan(stages, workspace)


def plan_zeros(results: Sequence[Operand], profile: Profile) -> Plan:
    """The plan of a call that has nothing to sum: zeros for every result that has elements."""
    if profile.exact:
        return plan_zeros_exactly(results)
    wanted = [result for result in results if result.count > 0]
    workspace = Workspace()
    zeros = workspace.reserve(max((result.count for result in wanted), default=0))
    stages: list[Stage] = []
    for result in wanted:
        stages += [_fill(zeros, result.count), _store(result, zeros, result.view())]
    return _plan(stages, workspace)


def _plan(stages: Sequence[Stage], workspace: Workspace) -> Plan:
    return Plan(
        workspace_size=workspace.size_bytes,
        units=sum(stage.units for stage in stages),
        parameters=pack_stages(stages),
    )


class _Parts(NamedTuple):
    """Where the parts of the workspace start."""

    block: int
    product: int
    image: int
    output: int
    weight: int
    lanes: int
    total: int


def _reserve(gradients: Gradients, workspace: Workspace) -> _Parts:
    """The parts that are needed; the results use one total, one after the other."""
    convolution, sums = gradients.convolution, gradients.sums
    pixel_tile, row_tile = _tiles(convolution)
    products = gradients.grad_image or gradients.grad_output or gradients.grad_weight
    block = max(pixel_tile * row_tile if products else 0, _sum_block(gradients))
    product = max(
        convolution.output_channels * pixel_tile if gradients.grad_output else 0,
        convolution.output_channels * row_tile if gradients.grad_weight else 0,
    )
    total = max(
        convolution.image_elements if gradients.grad_image else 0,
        convolution.output_elements if gradients.grad_output else 0,
        convolution.weight_elements if gradients.grad_weight else 0,
        sums.result.count if sums else 0,
    )
    return _Parts(
        block=workspace.reserve(block),
        product=workspace.reserve(product),
        image=workspace.reserve(convolution.image_elements if gradients.image else 0),
        output=workspace.reserve(convolution.output_elements if gradients.output else 0),
        weight=workspace.reserve(convolution.weight_elements if gradients.weight else 0),
        lanes=workspace.reserve(_LANES if sums else 0),
        total=workspace.reserve(total),
    )


def _sum_block(gradients: Gradients) -> int:
    sums = gradients.sums
    return min(_SUM_ELEMENTS, sums.image.count // sums.result.count) if sums else 0


def _sum_stages(gradients: Gradients, parts: _Parts) -> list[Stage]:
    """Sums in float32 of an image as it was given."""
    if gradients.sums is None:
        return []
    image, result = gradients.sums.image, gradients.sums.result
    pixels = image.count // result.count
    chunks = -(-pixels // _COPY_ELEMENTS)
    numbers = (image.place, parts.total, parts.block, _sum_block(gradients), parts.lanes)
    return [
        _fill(parts.total, result.count),
        Stage(
            kind=SUM_CHANNELS,
            units=result.count * chunks,
            parameters=(*numbers, pixels, chunks, _COPY_ELEMENTS, *image.view()),
        ),
        _store(result, parts.total, result.view()),
    ]


def _load_stages(gradients: Gradients, parts: _Parts) -> list[Stage]:
    convolution = gradients.convolution
    stages: list[Stage] = []
    if gradients.image:
        stages += _load_image(gradients.image, parts.image, convolution.image_elements)
    if gradients.output:
        stages += _load_image(gradients.output, parts.output, convolution.output_elements)
    if gradients.weight:
        order = (_GROUP, _OUTPUT_CHANNEL, _INPUT_CHANNEL, _TAP)
        if gradients.grad_image:
            order = (_GROUP, _INPUT_CHANNEL, _TAP, _OUTPUT_CHANNEL)
        stages.append(_load(gradients.weight, parts.weight, gradients.weight.view(*order)))
    return stages


def _image_stages(gradients: Gradients, parts: _Parts) -> list[Stage]:
    result, convolution = gradients.grad_image, gradients.convolution
    if result is None:
        return []
    return [
        _fill(parts.total, convolution.image_elements),
        _product(SCATTER_IMAGE, convolution, parts._replace(image=parts.total)),
        _store(result, parts.total, result.view()),
    ]


def _output_stages(gradients: Gradients, parts: _Parts) -> list[Stage]:
    result, convolution = gradients.grad_output, gradients.convolution
    if result is None:
        return []
    return [
        _fill(parts.total, convolution.output_elements),
        _product(GATHER_OUTPUT, convolution, parts._replace(output=parts.total)),
        _store(result, parts.total, result.view()),
    ]


def _weight_stages(gradients: Gradients, parts: _Parts) -> list[Stage]:
    result, convolution = gradients.grad_weight, gradients.convolution
    if result is None:
        return []
    stages = [
        _fill(parts.total, convolution.weight_elements),
        _product(GATHER_WEIGHT, convolution, parts._replace(weight=parts.total)),
    ]
    if gradients.diagonal:
        stages.append(_keep_diagonal(gradients.diagonal, convolution, parts.total))
    return [*stages, _store(result, parts.total, result.view())]


def _fill(start: int, count: int) -> Stage:
    units = -(-count // _COPY_ELEMENTS)
    return Stage(kind=FILL, units=units, parameters=(start, count, _COPY_ELEMENTS))


def _load_image(operand: Operand, start: int, elements: int) -> list[Stage]:
    """Zeros where the convolution has more channels than the image."""
    load = _load(operand, start, operand.view())
    return [load] if operand.count == elements else [_fill(start, elements), load]


def _load(operand: Operand, start: int, view: tuple[int, ...]) -> Stage:
    return _copy(LOAD, operand, start, view)


def _store(result: Operand, start: int, view: tuple[int, ...]) -> Stage:
    return _copy(STORE, result, start, view)


def _copy(kind: int, operand: Operand, start: int, view: tuple[int, ...]) -> Stage:
    units = -(-operand.count // _COPY_ELEMENTS)
    numbers = (operand.place, start, operand.count, _COPY_ELEMENTS, operand.number_format)
    return Stage(kind=kind, units=units, parameters=(*numbers, *view))


def _keep_diagonal(diagonal: Diagonal, convolution: Convolution, start: int) -> Stage:
    """One unit for each output channel of each superblock."""
    groups = (diagonal.groups, diagonal.extend)
    channels = (diagonal.output_channels, diagonal.input_channels)
    sizes = (convolution.output_channels, convolution.input_channels, convolution.taps)
    return Stage(
        kind=KEEP_DIAGONAL,
        units=convolution.groups * convolution.output_channels,
        parameters=(start, *groups, *channels, *sizes),
    )


def _product(kind: int, convolution: Convolution, parts: _Parts) -> Stage:
    """One unit for each block of columns of each group."""
    pixel_tile, row_tile = _tiles(convolution)
    pixel_tiles = -(-convolution.output_pixels // pixel_tile)
    row_tiles = -(-convolution.column_rows // row_tile)
    numbers = (*parts[:_PRODUCT_PARTS], pixel_tile, pixel_tiles, row_tile, row_tiles)
    return Stage(
        kind=kind,
        units=convolution.groups * pixel_tiles * row_tiles,
        parameters=(*numbers, *convolution.encode()),
    )


def _tiles(convolution: Convolution) -> tuple[int, int]:
    """Pixels and rows of a block of columns: bounded in memory, and so are its two products."""
    beside = max(1, _PRODUCT_ELEMENTS // convolution.output_channels)
    pixels = min(_PIXEL_TILE, convolution.output_pixels, beside)
    return pixels, min(convolution.column_rows, _BLOCK_ELEMENTS // pixels, beside)
