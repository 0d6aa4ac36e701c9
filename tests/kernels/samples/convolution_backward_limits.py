"""The documented limits of aclnnConvolutionBackward, as the page states them, and calls at them."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product

from kernels.samples.convolution_backward import convolution
from kernels.samples.sample import ErrorSample, Sample, TensorSample
from opserve_kernels.status import Status
from opserve_kernels.tensor import DataType

MOST_SIZE = 2147483646
_VAST = 1 << 20  # elements


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentedLimit:
    """A limit of Atlas A2 for transposed = false.

    Attributes:
        parameter: The argument.
        where: Which of its values.
        least: Least value.
        most: Greatest value.
        places: Dimensions of the tensors, and which value of the argument, to try it at.
    """

    parameter: str
    where: str
    least: int
    most: int
    places: tuple[tuple[int, int], ...]

    @property
    def rule(self) -> str:
        """As the error table words it."""
        return f"not in [{self.least}, {self.most}]: {self.where}; on ascend910b"


def _limit(
    parameter: str, where: str, bounds: tuple[int, int], *places: tuple[int, int]
) -> DocumentedLimit:
    scope = f"{where}, transposed is false" if where else "transposed is false"
    least, most = bounds
    return DocumentedLimit(parameter=parameter, where=scope, least=least, most=most, places=places)


_SIZES, _TAPS, _PADDING = (1, MOST_SIZE), (1, 255), (0, 255)
_IN_1D, _IN_2D = ((3, 0),), ((4, 0), (4, 1))
_IN_3D_H_W = ((5, 1), (5, 2))

# K of grad_output and C of input are K and C of weight; N of input is that of grad_output.
DOCUMENTED: tuple[DocumentedLimit, ...] = (
    _limit("weight", "K and C in 1-D", _SIZES, (3, 0), (3, 1)),
    _limit("weight", "L in 1-D", _TAPS, (3, 2)),
    _limit("weight", "K and C in 2-D", _SIZES, (4, 0), (4, 1)),
    _limit("weight", "K, C and D in 3-D", _SIZES, (5, 0), (5, 1), (5, 2)),
    _limit("weight", "H and W in 2-D and 3-D", _TAPS, (4, 2), (4, 3), (5, 3), (5, 4)),
    _limit(
        "grad_output",
        "a size, but where input is empty",
        _SIZES,
        *product((3, 4, 5), (0, 2)),
        *((4, 3), (5, 3), (5, 4)),
    ),
    _limit(
        "input",
        "a size, but those of an empty input",
        _SIZES,
        *((3, 2), (4, 2), (4, 3), (5, 2), (5, 3), (5, 4)),
    ),
    _limit("stride", "in 1-D and 2-D", _SIZES, *_IN_1D, *_IN_2D),
    _limit("stride", "D in 3-D", _SIZES, (5, 0)),
    _limit("stride", "H and W in 3-D", (1, 63), *_IN_3D_H_W),
    _limit("padding", "in 1-D and 2-D", _PADDING, *_IN_1D, *_IN_2D),
    _limit("padding", "D in 3-D", (0, MOST_SIZE), (5, 0)),
    _limit("padding", "H and W in 3-D", _PADDING, *_IN_3D_H_W),
    _limit("dilation", "", _TAPS, *_IN_1D, *_IN_2D, (5, 0), *_IN_3D_H_W),
    _limit("groups", "", (1, 65535), (3, 0), (4, 0), (5, 0)),
)


def call_with(parameter: str, rank: int, axis: int, value: int) -> Sample:
    """A call in FLOAT16 that is right but for this value, if that is beyond a limit.

    Args:
        parameter: The argument that has the value.
        rank: Dimensions of the tensors.
        axis: Which size of the tensor, or which entry of the array, is the value.
        value: Any.
    """
    sample = thinned(_CALLS[parameter](rank, axis, value))
    return sample.but(f"{parameter} {axis} of {rank} dimensions is {value}")


def thinned(sample: Sample) -> Sample:
    """The same call with one element behind all those of a vast tensor."""
    tensors = {name: _thin(tensor) for name, tensor in sample.tensors.items() if tensor}
    return sample.but(sample.name, **tensors)


def _plain(input_: tuple[int, ...], weight: tuple[int, ...], **changes: object) -> Sample:
    return convolution("limit", input_, weight, dtypes=(DataType.FLOAT16,) * 3, **changes)


def _ones(count: int, axis: int = 0, value: int = 1) -> tuple[int, ...]:
    """Ones, but for a value."""
    return (*(1,) * axis, value, *(1,) * (count - axis - 1))


def _thin(tensor: TensorSample) -> TensorSample:
    vast = tensor.tensor().element_count > _VAST
    return replace(tensor, strides=(0,) * len(tensor.shape)) if vast else tensor


def _weight_call(rank: int, axis: int, value: int) -> Sample:
    """A C of 0 has an input of one channel, for an input without channels is accepted."""
    weight = _ones(rank, axis, value)
    if axis == 0:
        return _plain(_ones(rank), weight)
    input_ = _ones(rank, axis, max(1, min(value, MOST_SIZE) if axis > 1 else value))
    padding = (0,) * (rank - 2)
    if axis > 1:
        padding = tuple(int(size > MOST_SIZE) for size in weight[2:])
    return _plain(input_, weight, padding=padding)


def _grad_output_call(rank: int, axis: int, value: int) -> Sample:
    if value == 0:
        sample = _plain(_ones(rank), _ones(rank))
        empty = sample.tensors["grad_output"]
        assert empty is not None
        return sample.but("limit", grad_output=replace(empty, shape=_ones(rank, axis, 0)))
    if axis == 0 or value <= MOST_SIZE:
        return _plain(_ones(rank, axis, value), _ones(rank))
    padding = tuple(int(place == axis) for place in range(2, rank))
    return _plain(_ones(rank, axis, value - 2), _ones(rank), padding=padding)


def _input_call(rank: int, axis: int, value: int) -> Sample:
    """Stride 2 keeps grad_output within its limit."""
    stride = _ones(rank - 2, axis - 2, 2)
    sample = _plain(_ones(rank, axis, max(value, 1)), _ones(rank), stride=stride)
    given, written = sample.tensors["input"], sample.tensors["grad_input"]
    assert given is not None
    assert written is not None
    shape = _ones(rank, axis, value)
    return sample.but(
        "limit", input=replace(given, shape=shape), grad_input=replace(written, shape=shape)
    )


def _stride_call(rank: int, axis: int, value: int) -> Sample:
    return _plain(_ones(rank), _ones(rank)).but("limit", stride=_ones(rank - 2, axis, value))


def _padding_call(rank: int, axis: int, value: int) -> Sample:
    """A vast padding has few places with a vast stride."""
    zeros = (0,) * (rank - 2)
    stride = _ones(rank - 2, axis, MOST_SIZE if rank == 5 and axis == 0 else 1)
    padding = (*zeros[:axis], max(value, 0), *zeros[axis + 1 :])
    sample = _plain(_ones(rank), _ones(rank), padding=padding, stride=stride)
    return sample.but("limit", padding=(*zeros[:axis], value, *zeros[axis + 1 :]))


def _dilation_call(rank: int, axis: int, value: int) -> Sample:
    step = max(value, 1)
    weight, input_ = _ones(rank, axis + 2, 2), _ones(rank, axis + 2, step + 1)
    sample = _plain(input_, weight, dilation=_ones(rank - 2, axis, step))
    return sample.but("limit", dilation=_ones(rank - 2, axis, value))


def _groups_call(rank: int, axis: int, value: int) -> Sample:
    assert axis == 0
    groups = max(value, 1)
    sample = _plain(_ones(rank, 1, groups), _ones(rank, 0, groups), groups=groups)
    return sample.but("limit", groups=value)


_CALLS = {
    "weight": _weight_call,
    "grad_output": _grad_output_call,
    "input": _input_call,
    "stride": _stride_call,
    "padding": _padding_call,
    "dilation": _dilation_call,
    "groups": _groups_call,
}


def _beyond() -> Iterator[ErrorSample]:
    for limit in DOCUMENTED:
        rank, axis = limit.places[-1]
        sample = call_with(limit.parameter, rank, axis, limit.most + 1)
        yield ErrorSample(
            rule=limit.rule,
            sample=sample.but(f"{limit.parameter}: {limit.rule}"),
            status=Status.ACLNN_ERR_PARAM_INVALID,
            parameter=limit.parameter,
        )


LIMIT_ERRORS: tuple[ErrorSample, ...] = tuple(_beyond())
