"""A call of a user: NumPy arrays to NumPy arrays through a service on this computer."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from statistics import median
from typing import Any

from benchmarks.kernels import peer
from benchmarks.kernels.arrays import Array, convolution_arrays, relative_error
from benchmarks.kernels.lines import Line, Part, Suite
from benchmarks.kernels.measuring import by_turns_on_the_clock, ratio
from benchmarks.kernels.shapes import ConvolutionShape
from benchmarks.kernels.subject import gradients_arguments
from opserve_client import Client, ConvolutionBackward, Session
from opserve_client.private_service import private_service
from opserve_kernels.tensor import DataType

LEAST_S = 1e-3
"""PyTorch's seconds of a layer that counts; shorter ones measure the round trip."""

_OURS, _THEIRS = "ours", "theirs"
_ALL = (True, True, True)
_LARGE = ("grad_input", "grad_weight")


def compare_end_to_end(shapes: Sequence[ConvolutionShape], rounds: int) -> list[Line]:
    """Compares session.run over Connect, with a device of one thread, with PyTorch in process."""
    with (
        private_service(devices='["ascend910b"]', device_threads="1") as addresses,
        Client(addresses.rest) as client,
        client.open_session() as session,
    ):
        return [_compare(shape, session, rounds) for shape in shapes]


def _compare(shape: ConvolutionShape, session: Session, rounds: int) -> Line:
    arrays = convolution_arrays(shape, DataType.FLOAT)
    call = ConvolutionBackward(**_arguments(shape, arrays))
    theirs = peer.gradients_peer(shape, arrays, _ALL)
    calls: Mapping[str, Callable[[], object]] = {_OURS: partial(session.run, call), _THEIRS: theirs}
    samples = by_turns_on_the_clock(calls, rounds)
    exact, their_results = peer.exact_gradients(shape, arrays, _ALL), peer.results_of(theirs)
    results = session.run(call)
    their_s = median(samples[_THEIRS])
    return Line(
        suite=Suite.END_TO_END if their_s >= LEAST_S else Suite.SMALL,
        shape=shape.name,
        text=shape.text,
        algorithm="-",
        work=2 * shape.operations,
        ours_s=median(samples[_OURS]),
        theirs_s=their_s,
        ratios={Part.ALL: ratio(samples, over=_THEIRS, under=_OURS)},
        error=max(relative_error(getattr(results, name), exact[name]) for name in _LARGE),
        their_error=max(relative_error(their_results[name], exact[name]) for name in _LARGE),
    )


def _arguments(shape: ConvolutionShape, arrays: Mapping[str, Array]) -> dict[str, Any]:
    """Returns the arguments of a call whose outputs are inferred."""
    planned = gradients_arguments(shape, DataType.FLOAT, _ALL)
    names = ("bias_sizes", "stride", "padding", "dilation", "transposed", "output_padding")
    more = ("groups", "output_mask", "cube_math_type")
    return {**arrays, **{name: getattr(planned, name) for name in (*names, *more)}}
