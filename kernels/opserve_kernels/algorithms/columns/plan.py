"""Products through the matrix of columns, block by block: slow, small, and for every geometry.

Operands are loaded whole: an image as (channel, position), a weight in the order that its product
reads. A block of columns is gathered from an image and multiplied, or it is a product that is added
to the image.
"""

from typing import NamedTuple

from opserve_kernels.algorithms.columns.layout import ColumnsStage
from opserve_kernels.convolution import Convolution
from opserve_kernels.copy_stages import fill, keep_diagonal, load, store
from opserve_kernels.gradients import Gradients, Operand
from opserve_kernels.records import encode
from opserve_kernels.stages import Stage
from opserve_kernels.workspace import Workspace

# Kinds of stages; those of the other modules have other numbers.
SCATTER_IMAGE, GATHER_OUTPUT, GATHER_WEIGHT = range(10, 13)

_PIXEL_TILE = 512  # columns of a block: two rows of it and of its product stay in the first cache
_BLOCK_ELEMENTS = 1 << 15  # a block of columns: 128 KiB, so that it stays in the second-level cache
_PRODUCT_ELEMENTS = 1 << 17  # a block's product with all channels of the other side: 512 KiB
_GROUP, _OUTPUT_CHANNEL, _INPUT_CHANNEL, _TAP = range(4)  # axes of a weight's parts


class _Tiles(NamedTuple):
    """Sizes of a block of columns."""

    pixels: int
    rows: int


class _Parts(NamedTuple):
    """Starts of the parts of the workspace."""

    block: int
    product: int
    image: int
    output: int
    weight: int
    total: int


def columns_stages(
    gradients: Gradients, workspace: Workspace, *, by_entry: bool = False
) -> list[Stage]:
    """The stages of a call's products: image or output first, then weight.

    Args:
        gradients: The call.
        workspace: Provides the parts that the stages need.
        by_entry: Whether no block has columns of two entries of the batch.
    """
    tiles = _tiles(gradients.convolution, by_entry=by_entry)
    parts = _reserve(gradients, tiles, workspace)
    return [
        *_load_stages(gradients, parts),
        *_image_stages(gradients, tiles, parts),
        *_output_stages(gradients, tiles, parts),
        *_weight_stages(gradients, tiles, parts),
    ]


def _reserve(gradients: Gradients, tiles: _Tiles, workspace: Workspace) -> _Parts:
    """Reserves the parts that are needed; the results use one total, one after the other."""
    convolution = gradients.convolution
    pixel_tile, row_tile = tiles
    # The scatter's product is the block of columns itself, so only the gathers need one besides.
    products = (
        convolution.output_channels * pixel_tile if gradients.grad_output else 0,
        convolution.output_channels * row_tile if gradients.grad_weight else 0,
    )
    totals = (
        convolution.image_elements if gradients.grad_image else 0,
        convolution.output_elements if gradients.grad_output else 0,
        convolution.weight_elements if gradients.grad_weight else 0,
    )
    return _Parts(
        block=workspace.reserve(pixel_tile * row_tile),
        product=workspace.reserve(max(products)),
        image=workspace.reserve(convolution.image_elements if gradients.image else 0),
        output=workspace.reserve(convolution.output_elements if gradients.output else 0),
        weight=workspace.reserve(convolution.weight_elements if gradients.weight else 0),
        total=workspace.reserve(max(totals)),
    )


def _load_stages(gradients: Gradients, parts: _Parts) -> list[Stage]:
    convolution = gradients.convolution
    stages: list[Stage] = []
    if gradients.image:
        stages += _load_image(gradients.image, parts.image, convolution.image_elements)
    if gradients.output:
        stages += _load_image(gradients.output, parts.output, convolution.output_elements)
    if gradients.weight:
        # Each product reads its weight contiguously along the channels or taps that it sums over.
        order = (_GROUP, _OUTPUT_CHANNEL, _INPUT_CHANNEL, _TAP)
        if gradients.grad_image:
            order = (_GROUP, _INPUT_CHANNEL, _TAP, _OUTPUT_CHANNEL)
        stages.append(load(gradients.weight, parts.weight, gradients.weight.view(*order)))
    return stages


def _load_image(operand: Operand, start: int, elements: int) -> list[Stage]:
    """Loads an image; zeros first where the convolution has more channels than the image."""
    loaded = load(operand, start, operand.view())
    return [loaded] if operand.count == elements else [fill(start, elements), loaded]


def _image_stages(gradients: Gradients, tiles: _Tiles, parts: _Parts) -> list[Stage]:
    result, convolution = gradients.grad_image, gradients.convolution
    if result is None:
        return []
    return [
        fill(parts.total, convolution.image_elements),
        _product(SCATTER_IMAGE, convolution, tiles, parts._replace(image=parts.total)),
        store(result, parts.total, result.view()),
    ]


def _output_stages(gradients: Gradients, tiles: _Tiles, parts: _Parts) -> list[Stage]:
    result, convolution = gradients.grad_output, gradients.convolution
    if result is None:
        return []
    return [
        fill(parts.total, convolution.output_elements),
        _product(GATHER_OUTPUT, convolution, tiles, parts._replace(output=parts.total)),
        store(result, parts.total, result.view()),
    ]


def _weight_stages(gradients: Gradients, tiles: _Tiles, parts: _Parts) -> list[Stage]:
    result, convolution = gradients.grad_weight, gradients.convolution
    if result is None:
        return []
    stages = [
        fill(parts.total, convolution.weight_elements),
        _product(GATHER_WEIGHT, convolution, tiles, parts._replace(weight=parts.total)),
    ]
    if gradients.diagonal:
        stages.append(keep_diagonal(gradients.diagonal, convolution, parts.total))
    return [*stages, store(result, parts.total, result.view())]


def _product(kind: int, convolution: Convolution, tiles: _Tiles, parts: _Parts) -> Stage:
    """The stage of a product, with one unit for each block of columns of each group."""
    pixel_tiles = -(-convolution.output_pixels // tiles.pixels)
    row_tiles = -(-convolution.column_rows // tiles.rows)
    stage = ColumnsStage(
        block=parts.block,
        product=parts.product,
        image=parts.image,
        output=parts.output,
        weight=parts.weight,
        pixel_tile=tiles.pixels,
        pixel_tiles=pixel_tiles,
        row_tile=tiles.rows,
        row_tiles=row_tiles,
        geometry=convolution.geometry,
    )
    units = convolution.groups * pixel_tiles * row_tiles
    return Stage(kind=kind, units=units, parameters=encode(stage))


def _tiles(convolution: Convolution, *, by_entry: bool) -> _Tiles:
    """Pixels and rows of a block of columns: bounded in memory, and so are its two products."""
    # Bounds from three sides: the first-level cache for two rows, the second-level cache for the
    # block, and the product with all channels.
    beside = max(1, _PRODUCT_ELEMENTS // convolution.output_channels)
    most = min(_PIXEL_TILE, beside)
    pixels = min(most, convolution.output_pixels)
    # By entry, a tile divides the positions of an entry. The blocks of an entry are then the same
    # in any batch, and so are the bytes of its results.
    if by_entry:
        entry = convolution.output_pixels // convolution.batch
        pixels = next(size for size in range(min(most, entry), 0, -1) if entry % size == 0)
    rows = min(convolution.column_rows, _BLOCK_ELEMENTS // pixels, beside)
    return _Tiles(pixels=pixels, rows=rows)
