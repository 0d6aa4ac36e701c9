"""Phase one of aclnnConvolutionBackward: the stages of a call and the workspace they share."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from opserve_kernels.convolution import Convolution, Triple
from opserve_kernels.convolution_backward.call import Call
from opserve_kernels.convolution_backward.checks import check
from opserve_kernels.convolution_backward.schema import ConvolutionBackward
from opserve_kernels.number_formats import FLOAT, FLOAT16, FLOATING_TYPES, HF32, promote
from opserve_kernels.operator import Plan
from opserve_kernels.profiles import Profile
from opserve_kernels.stages import Stage, pack_stages
from opserve_kernels.tensor import DataType, Tensor, check_tensor
from opserve_kernels.views import encode_view
from opserve_kernels.workspace import Workspace

# Kinds of stages.
FILL, LOAD, STORE, SUM_BIAS, SCATTER_IMAGE, GATHER_OUTPUT, GATHER_WEIGHT = range(7)

# Places of the tensors in the schema.
GRAD_OUTPUT, INPUT, WEIGHT, GRAD_INPUT, GRAD_WEIGHT, GRAD_BIAS = range(6)

_COPY_ELEMENTS = 1 << 16  # elements that one unit copies, about 0.1 ms
_PIXEL_TILE = (
    512  # columns of a block: two rows of it and of its product stay in the first-level cache
)
_BLOCK_ELEMENTS = 1 << 15  # a block of columns: 128 KiB, so that it stays in the second-level cache
_PRODUCT_ELEMENTS = 1 << 17  # a block's product with all channels of the other side: 512 KiB
_SUM_ELEMENTS = 1 << 12  # elements of grad_output that are summed in lanes at a time
_TENSORS = ("grad_output", "input", "weight", "grad_input", "grad_weight", "grad_bias")
_LANES = 64  # partial sums of a dot product: opserve_kernels.sums.LANES
_MASK_LENGTH = 3
_PRODUCT_PARTS = 5  # the parts of the workspace that a product reads or writes
_USE_FP16 = 2
_HF32_TYPES = (1, 3)


def infer_outputs(arguments: ConvolutionBackward) -> Mapping[str, Tensor]:
    """The gradients that a caller would make: contiguous, without a buffer."""
    grad_output, mask = arguments.grad_output, arguments.output_mask
    if grad_output is None or mask is None or len(mask) != _MASK_LENGTH:
        return {}
    outputs: dict[str, Tensor] = {}
    if mask[0] and arguments.grad_input is None and arguments.input is not None:
        outputs["grad_input"] = _gradient_of(arguments.input, grad_output)
    if mask[1] and arguments.grad_weight is None and arguments.weight is not None:
        outputs["grad_weight"] = _gradient_of(arguments.weight, grad_output)
    if mask[2] and arguments.grad_bias is None and grad_output.rank > 1:
        outputs["grad_bias"] = Tensor(shape=grad_output.shape[1:2], dtype=grad_output.dtype)
    return outputs


def plan(arguments: ConvolutionBackward, profile: Profile) -> Plan:  # noqa: ARG001  # only one
    """Checks a call and lays out its stages: bias, input, weight, as the vendor orders them.

    Raises:
        InvalidArgument: A rule is broken; see README.md.
    """
    for name, tensor in _tensors(arguments):
        check_tensor(name, tensor, buffer_bytes=None)
    call = check(arguments)
    stages, workspace = _empty_stages(call) if call.is_empty else _stages(call)
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


def _stages(call: Call) -> tuple[list[Stage], Workspace]:
    convolution = _convolution(call)
    workspace = Workspace()
    parts = _reserve(call, convolution, workspace)
    stages: list[Stage] = []
    if call.output_mask[2]:
        stages += _bias_stages(call, parts)
    stages += _load_stages(call, parts)
    if call.output_mask[0]:
        stages += _input_stages(call, convolution, parts)
    if call.output_mask[1]:
        stages += _weight_stages(call, convolution, parts)
    return stages, workspace


def _reserve(call: Call, convolution: Convolution, workspace: Workspace) -> _Parts:
    """The parts that the mask asks for; the three gradients use one total, one after the other."""
    to_input, to_weight, to_bias = call.output_mask
    pixel_tile, row_tile = _tiles(convolution)
    block = max(
        pixel_tile * row_tile if to_input or to_weight else 0, _bias_block(call) if to_bias else 0
    )
    product = max(
        convolution.output_channels * pixel_tile if to_input and call.transposed else 0,
        convolution.output_channels * row_tile if to_weight else 0,
    )
    total = max(
        call.input.element_count if to_input else 0,
        call.weight.element_count if to_weight else 0,
        call.grad_output.shape[1] if to_bias else 0,
    )
    loads_image, loads_output = _loads(call)
    return _Parts(
        block=workspace.reserve(block),
        product=workspace.reserve(product),
        image=workspace.reserve(call.image[1].element_count if loads_image else 0),
        output=workspace.reserve(call.output[1].element_count if loads_output else 0),
        weight=workspace.reserve(call.weight.element_count if to_input else 0),
        lanes=workspace.reserve(_LANES if to_bias else 0),
        total=workspace.reserve(total),
    )


def _loads(call: Call) -> tuple[bool, bool]:
    """Whether the image and the output of the convolution are operands."""
    to_input, to_weight, _ = call.output_mask
    return to_weight or (to_input and call.transposed), to_weight or (
        to_input and not call.transposed
    )


def _bias_block(call: Call) -> int:
    return min(_SUM_ELEMENTS, call.grad_output.element_count // call.grad_output.shape[1])


def _bias_stages(call: Call, parts: _Parts) -> list[Stage]:
    """Sum of grad_output as it was given, in float32, rounded to its dtype."""
    assert call.grad_bias is not None
    channels = call.grad_output.shape[1]
    pixels = call.grad_output.element_count // channels
    chunks = -(-pixels // _COPY_ELEMENTS)
    view = _channels_first(call.grad_output)
    numbers = (
        parts.total,
        parts.block,
        _bias_block(call),
        parts.lanes,
        pixels,
        chunks,
        _COPY_ELEMENTS,
    )
    return [
        _fill(parts.total, channels),
        Stage(kind=SUM_BIAS, units=channels * chunks, parameters=(*numbers, *view)),
        _store(
            GRAD_BIAS,
            parts.total,
            call.grad_bias.element_count,
            number_format=call.grad_output.dtype.acl_number,
            view=encode_view(
                call.grad_bias, shape=call.grad_bias.shape, strides=call.grad_bias.element_strides
            ),
        ),
    ]


def _load_stages(call: Call, parts: _Parts) -> list[Stage]:
    loads_image, loads_output = _loads(call)
    image = INPUT if not call.transposed else GRAD_OUTPUT
    output = GRAD_OUTPUT if not call.transposed else INPUT
    stages: list[Stage] = []
    if loads_image:
        stages.append(_load(call, image, parts.image, _channels_first(call.image[1])))
    if loads_output:
        stages.append(_load(call, output, parts.output, _channels_first(call.output[1])))
    if call.output_mask[0]:
        view = _weight_view(call.weight, call.groups, output_channels_last=not call.transposed)
        stages.append(_load(call, WEIGHT, parts.weight, view))
    return stages


def _input_stages(call: Call, convolution: Convolution, parts: _Parts) -> list[Stage]:
    """Rounded to the dtype of the computation before it is rounded to that of the gradient."""
    assert call.grad_input is not None
    computed = DataType.FLOAT16 if call.cube_math_type == _USE_FP16 else call.promoted
    if call.transposed:
        product = _product(GATHER_OUTPUT, convolution, parts._replace(output=parts.total))
    else:
        product = _product(SCATTER_IMAGE, convolution, parts._replace(image=parts.total))
    count = call.grad_input.element_count
    view = _channels_first(call.grad_input)
    return [
        _fill(parts.total, count),
        product,
        _store(GRAD_INPUT, parts.total, count, number_format=computed.acl_number, view=view),
    ]


def _weight_stages(call: Call, convolution: Convolution, parts: _Parts) -> list[Stage]:
    """Kept in float32; the vendor passes through FLOAT16 for groups computed in 16 bits."""
    assert call.grad_weight is not None
    in_16_bits = call.cube_math_type == _USE_FP16 or call.promoted != DataType.FLOAT
    passes_half = in_16_bits and call.groups > 1 and call.grad_weight.dtype == DataType.FLOAT
    count = call.grad_weight.element_count
    return [
        _fill(parts.total, count),
        _product(GATHER_WEIGHT, convolution, parts._replace(weight=parts.total)),
        _store(
            GRAD_WEIGHT,
            parts.total,
            count,
            number_format=FLOAT16 if passes_half else FLOAT,
            view=_weight_view(call.grad_weight, call.groups, output_channels_last=False),
        ),
    ]


def _empty_stages(call: Call) -> tuple[list[Stage], Workspace]:
    """Zeros for the gradients of weight and bias; that of input has no elements."""
    workspace = Workspace()
    stages: list[Stage] = []
    places = ((GRAD_WEIGHT, call.grad_weight), (GRAD_BIAS, call.grad_bias))
    wanted = [
        (place, tensor)
        for (place, tensor), asked in zip(places, call.output_mask[1:], strict=True)
        if asked and tensor is not None and tensor.element_count > 0
    ]
    zeros = workspace.reserve(max((tensor.element_count for _, tensor in wanted), default=0))
    for place, tensor in wanted:
        view = encode_view(tensor, shape=tensor.shape, strides=tensor.element_strides)
        stages.append(_fill(zeros, tensor.element_count))
        stages.append(_store(place, zeros, tensor.element_count, number_format=FLOAT, view=view))
    return stages, workspace


def _fill(start: int, count: int) -> Stage:
    units = -(-count // _COPY_ELEMENTS)
    return Stage(kind=FILL, units=units, parameters=(start, count, _COPY_ELEMENTS))


def _load(call: Call, place: int, start: int, view: tuple[int, ...]) -> Stage:
    tensor = {GRAD_OUTPUT: call.grad_output, INPUT: call.input, WEIGHT: call.weight}[place]
    operands = FLOAT
    if call.cube_math_type == _USE_FP16:
        operands = FLOAT16
    elif call.cube_math_type in _HF32_TYPES and call.promoted == DataType.FLOAT:
        operands = HF32
    units = -(-tensor.element_count // _COPY_ELEMENTS)
    numbers = (place, start, tensor.element_count, _COPY_ELEMENTS, operands)
    return Stage(kind=LOAD, units=units, parameters=(*numbers, *view))


def _store(
    place: int, start: int, count: int, *, number_format: int, view: tuple[int, ...]
) -> Stage:
    units = -(-count // _COPY_ELEMENTS)
    numbers = (place, start, count, _COPY_ELEMENTS, number_format)
    return Stage(kind=STORE, units=units, parameters=(*numbers, *view))


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


def _convolution(call: Call) -> Convolution:
    image, output = call.image[1], call.output[1]
    return Convolution(
        batch=image.shape[0],
        groups=call.groups,
        input_channels=call.weight.shape[1],
        output_channels=call.weight.shape[0] // call.groups,
        input_size=_three(image.shape[2:], 1),
        output_size=_three(output.shape[2:], 1),
        kernel_size=_three(call.weight.shape[2:], 1),
        stride=_three(call.stride, 1),
        padding=_three(tuple(before for before, _ in call.sides), 0),
        dilation=_three(call.dilation, 1),
    )


def _channels_first(tensor: Tensor) -> tuple[int, ...]:
    """View in the order (C, N, D, H, W), so that a channel runs over the batch without a break."""
    n, c, *sizes = tensor.shape
    n_step, c_step, *steps = tensor.element_strides
    return encode_view(tensor, shape=(c, n, *sizes), strides=(c_step, n_step, *steps))


def _weight_view(tensor: Tensor, groups: int, *, output_channels_last: bool) -> tuple[int, ...]:
    """View in the order (group, K/groups, C/groups, taps), or with K/groups last."""
    k, *sizes = tensor.shape
    k_step, *steps = tensor.element_strides
    k_group = k // groups
    if output_channels_last:
        shape, strides = (groups, *sizes, k_group), (k_step * k_group, *steps, k_step)
    else:
        shape, strides = (groups, k_group, *sizes), (k_step * k_group, k_step, *steps)
    return encode_view(tensor, shape=shape, strides=strides)


def _three(values: tuple[int, ...], filler: int) -> Triple:
    first, second, third = (filler,) * (3 - len(values)) + values
    return first, second, third


def _gradient_of(tensor: Tensor, grad_output: Tensor) -> Tensor:
    known = {tensor.dtype, grad_output.dtype} <= set(FLOATING_TYPES)
    dtype = promote(tensor.dtype, grad_output.dtype) if known else tensor.dtype
    return Tensor(shape=tensor.shape, dtype=dtype, format=tensor.format)


def _tensors(arguments: ConvolutionBackward) -> Iterator[tuple[str, Tensor]]:
    for name in _TENSORS:
        tensor: Tensor | None = getattr(arguments, name)
        if tensor is not None:
            yield name, tensor
