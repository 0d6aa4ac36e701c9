"""Comparison of one shape on both sides: time, and error against float64."""

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median

from benchmarks.kernels import peer, subject
from benchmarks.kernels.arrays import (
    Array,
    convolution_arrays,
    fold_columns,
    forward_arrays,
    relative_error,
    unfold_image,
)
from benchmarks.kernels.lines import THREADS, Line, Part, Suite
from benchmarks.kernels.measuring import Samples, by_turns, faster, least_by_turns, ratio
from benchmarks.kernels.shapes import ConvolutionShape, FoldShape
from benchmarks.measure import Figure
from opserve_kernels.operator import PlanOptions
from opserve_kernels.tensor import DataType

_OURS, _THEIRS, _CHANNELS_LAST = "ours", "theirs", "theirs, channels last"
_ALONE = "ours, one thread"
_PRODUCTS = 2  # grad_input and grad_weight; grad_bias does not count as work
_DTYPES = {Suite.FLOAT16: DataType.FLOAT16, Suite.BFLOAT16: DataType.BF16}
_ALL: subject.Mask = (True, True, True)
_TO_WEIGHT: subject.Mask = (False, True, False)
_SINGLE: Mapping[Part, subject.Mask] = {
    Part.GRAD_INPUT: (True, False, False),
    Part.GRAD_WEIGHT: _TO_WEIGHT,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Contest:
    """A call on both sides, with its work as in Line and its results by name."""

    ours: subject.Call
    theirs: peer.Peer
    work: float
    exact: Mapping[str, Array]
    found: Mapping[str, Array]


def compare_in_depth(shape: ConvolutionShape, rounds: int) -> Line:
    """Compares all gradients and each large one, also with PyTorch's better layout."""
    suite = Suite.CONVOLUTION
    arrays = convolution_arrays(shape, DataType.FLOAT)
    contest = _gradients(shape, arrays, suite)
    samples = _by_layouts(shape, arrays, contest, rounds)
    ratios = {Part.ALL_BEST: _over_the_better(samples)}
    for part, mask in _SINGLE.items():
        single: dict[str, peer.Peer] = {
            _OURS: subject.gradients_call(shape, arrays, DataType.FLOAT, mask),
            _THEIRS: peer.gradients_peer(shape, arrays, mask),
        }
        ratios[part] = ratio(by_turns(single, rounds), over=_THEIRS, under=_OURS)
    return _line(suite, shape, contest, samples, ratios)


def compare_gradients(shape: ConvolutionShape, suite: Suite, rounds: int) -> Line:
    """Compares all gradients with PyTorch on contiguous tensors."""
    arrays = convolution_arrays(shape, _DTYPES.get(suite, DataType.FLOAT))
    contest = _gradients(shape, arrays, suite)
    return _line(suite, shape, contest, _both(contest, rounds), {})


def compare_fast(shape: ConvolutionShape, rounds: int) -> Line:
    """Compares all gradients in both layouts, with Winograd's algorithm if it is faster."""
    arrays = convolution_arrays(shape, DataType.FLOAT)
    contest = _gradients(shape, arrays, Suite.FAST, subject.FAST)
    samples = _by_layouts(shape, arrays, contest, rounds)
    more_ratios = {Part.ALL_BEST: _over_the_better(samples)}
    return _line(Suite.FAST, shape, contest, samples, more_ratios)


def compare_forward(shape: ConvolutionShape, rounds: int) -> Line:
    """Compares the forward convolution with a bias on contiguous tensors."""
    arrays = forward_arrays(shape)
    theirs = peer.forward_peer(shape, arrays)
    contest = _Contest(
        ours=subject.forward_call(shape, arrays),
        theirs=theirs,
        work=shape.operations,
        exact={"output": peer.exact_output(shape, arrays)},
        found={"output": peer.as_float64(theirs())},
    )
    return _line(Suite.FORWARD, shape, contest, _both(contest, rounds), {})


def compare_on_threads(shape: ConvolutionShape, loops: float, rounds: int) -> Line:
    """Compares all gradients with two threads on both sides, and with one thread on ours.

    Args:
        shape: The shape.
        loops: Loops of multiply-adds that two threads run in the time of one.
        rounds: Number of rounds.
    """
    arrays = convolution_arrays(shape, DataType.FLOAT)
    contest = _gradients(shape, arrays, Suite.THREADS, PlanOptions(threads=THREADS))
    alone = _gradients(shape, arrays, Suite.THREADS).ours
    peer.use_threads(THREADS)
    calls: dict[str, peer.Peer] = {_OURS: contest.ours, _THEIRS: contest.theirs, _ALONE: alone}
    samples = dict(least_by_turns(calls, rounds))
    peer.use_threads(1)
    samples[_ALONE] = [seconds / loops for seconds in samples[_ALONE]]
    more_ratios = {Part.OF_LOOPS: ratio(samples, over=_ALONE, under=_OURS)}
    return _line(Suite.THREADS, shape, contest, samples, more_ratios)


def compare_filters(shape: ConvolutionShape, rounds: int) -> Line:
    """Compares the filter gradient with channels last on both sides."""
    arrays = convolution_arrays(shape, DataType.FLOAT)
    theirs = peer.channels_last_peer(shape, arrays, _TO_WEIGHT)
    exact, found = (
        {"dw_data": subject.filter_of(shape, gradients["grad_weight"])}
        for gradients in (
            peer.exact_gradients(shape, arrays, _TO_WEIGHT),
            peer.results_of(theirs),
        )
    )
    contest = _Contest(
        ours=subject.filter_call(shape, arrays),
        theirs=theirs,
        work=shape.operations,
        exact=exact,
        found=found,
    )
    return _line(Suite.FILTER, shape, contest, _both(contest, rounds), {})


def compare_folds(shape: FoldShape, rounds: int) -> Line:
    """Compares the folding of columns to images."""
    columns = fold_columns(shape)
    theirs = peer.fold_peer(shape, columns)
    contest = _Contest(
        ours=subject.fold_call(shape, columns),
        theirs=theirs,
        work=shape.size_bytes,
        exact={"out": peer.exact_fold(shape, columns)},
        found={"out": peer.as_float64(theirs())},
    )
    return _line(Suite.FOLD, shape, contest, _both(contest, rounds), {})


def compare_unfolds(shape: FoldShape, rounds: int) -> Line:
    """Compares the unfolding of images to columns, which is exact on both sides."""
    image = unfold_image(shape)
    theirs = peer.unfold_peer(shape, image)
    columns = peer.as_float64(theirs())
    contest = _Contest(
        ours=subject.unfold_call(shape, image),
        theirs=theirs,
        work=shape.size_bytes,
        exact={"out": columns},
        found={"out": columns},
    )
    return _line(Suite.UNFOLD, shape, contest, _both(contest, rounds), {})


def _gradients(
    shape: ConvolutionShape,
    arrays: Mapping[str, Array],
    suite: Suite,
    options: PlanOptions = subject.DIRECT,
) -> _Contest:
    theirs = peer.gradients_peer(shape, arrays, _ALL)
    dtype = _DTYPES.get(suite, DataType.FLOAT)
    return _Contest(
        ours=subject.gradients_call(shape, arrays, dtype, _ALL, options),
        theirs=theirs,
        work=_PRODUCTS * shape.operations,
        exact=peer.exact_gradients(shape, arrays, _ALL),
        found=peer.results_of(theirs),
    )


def _by_layouts(
    shape: ConvolutionShape, arrays: Mapping[str, Array], contest: _Contest, rounds: int
) -> Samples:
    """Measures ours, and theirs in each layout that PyTorch has for the shape."""
    calls: dict[str, peer.Peer] = {_OURS: contest.ours, _THEIRS: contest.theirs}
    if shape.rank in peer.HAS_CHANNELS_LAST:
        calls[_CHANNELS_LAST] = peer.channels_last_peer(shape, arrays, _ALL)
    return by_turns(calls, rounds)


def _over_the_better(samples: Samples) -> Figure:
    best = faster(samples, _THEIRS, _CHANNELS_LAST)
    return ratio(samples, over=best, under=_OURS)


def _both(contest: _Contest, rounds: int) -> Samples:
    return by_turns({_OURS: contest.ours, _THEIRS: contest.theirs}, rounds)


def _line(
    suite: Suite,
    shape: ConvolutionShape | FoldShape,
    contest: _Contest,
    samples: Samples,
    more_ratios: Mapping[Part, Figure],
) -> Line:
    return Line(
        suite=suite,
        shape=shape.name,
        text=shape.text,
        algorithm=contest.ours.algorithm,
        work=contest.work,
        ours_s=median(samples[_OURS]),
        theirs_s=median(samples[_THEIRS]),
        ratios={Part.ALL: ratio(samples, over=_THEIRS, under=_OURS), **more_ratios},
        error=_worst_error(contest.ours.arrays(), contest.exact),
        their_error=_worst_error(contest.found, contest.exact),
    )


def _worst_error(found: Mapping[str, Array], exact: Mapping[str, Array]) -> float:
    """Returns the algorithms of the products, without the sum over positions of grad_bias."""
    return max(relative_error(found[name], exact[name]) for name in exact if name != "grad_bias")
