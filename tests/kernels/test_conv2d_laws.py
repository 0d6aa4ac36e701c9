"""Laws of both TBE operators for arguments of any kind: adjointness, and views inside buffers."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from kernels.execution import execute, plan_of
from kernels.oracles.convolution_backward import Geometry, forward
from kernels.samples import conv2d_backprop_filter as dw
from kernels.samples import conv2d_backprop_input as dx
from kernels.samples.para_dicts import changed
from kernels.samples.sample import Sample, Values
from opserve_kernels.algorithms.direct.plan import ADD_OUTER, CORRELATE, MULTIPLY_DOTS
from opserve_kernels.algorithms.dots.layout import DotsStage
from opserve_kernels.algorithms.outer.layout import OuterStage
from opserve_kernels.algorithms.packed.layout import PackedStage
from opserve_kernels.copy_stages import STORE
from opserve_kernels.errors import InvalidArgument
from opserve_kernels.formats import from_5hd, from_fractal_z, to_5hd, to_fractal_z
from opserve_kernels.operator import Plan, PlanOptions
from opserve_kernels.records import dtype_of
from opserve_kernels.reference_plan import REFERENCE_LOAD, REFERENCE_STORE
from opserve_kernels.registry import OPERATORS
from opserve_kernels.stages import stages_between
from opserve_kernels.tensor import DataType
from opserve_kernels.views import VIEW_RANK

Doubles = NDArray[np.float64]
Integers = NDArray[np.int64]
Drawn = tuple[dx.Sizes, dx.Sizes, int, dict[str, Any]]

_PLACES = 3  # of the tensors of a product, at the start of its stage
_CORRELATED = {CORRELATE: PackedStage, MULTIPLY_DOTS: DotsStage}
_HEADER = 5  # of a copy's stage: place, start, count, chunk and number format; a view follows
_COPIES = {STORE: 4, REFERENCE_LOAD: 8, REFERENCE_STORE: 8}  # bytes of a value in the workspace

laws = settings(max_examples=60, deadline=None, derandomize=True)
fuzz = settings(max_examples=600, deadline=None, derandomize=True)


def _row(low: int, high: int, length: int) -> st.SearchStrategy[tuple[int, ...]]:
    return st.tuples(*(st.integers(low, high) for _ in range(length)))


@st.composite
def convolutions(draw: st.DrawFn) -> Drawn:
    """Sizes of image and filter, groups, and steps, all small."""
    groups = draw(st.integers(1, 5))
    channels = st.sampled_from([1, 3, 8, 16, 17])
    inputs, outputs = draw(channels), draw(channels)
    kernel, image = draw(_row(1, 3, 2)), draw(_row(1, 5, 2))
    steps: dict[str, Any] = {
        "strides": draw(_row(1, 3, 2)),
        "padding": draw(_row(0, 2, 4)),
        "dilations": (1, 1, *draw(_row(1, 2, 2))),
    }
    sizes = (draw(st.integers(1, 2)), groups * inputs, image[0], image[1])
    filter_sizes = (groups * outputs, inputs, kernel[0], kernel[1])
    output = dx.output_sizes(list(image), filter_sizes, steps)
    assume(min(output) >= 1)
    return sizes, filter_sizes, groups, steps


def _run(sample: Sample, **arrays: Doubles) -> Doubles:
    buffers = sample.buffers()
    for name, array in arrays.items():
        sample.inputs[name].view(buffers[name])[...] = array
    execute(sample, buffers, options=PlanOptions())
    return sample.outputs["res_tensor"].view(buffers["res_tensor"]).astype(np.float64)


@laws
@given(convolutions(), st.sampled_from(["ascend910b", "reference"]))
def test_gradients_are_adjoint_to_the_forward_convolution(drawn: Drawn, profile: str) -> None:
    sizes, filter_sizes, groups, steps = drawn
    output = (sizes[0], filter_sizes[0], *dx.output_sizes(list(sizes[2:]), filter_sizes, steps))
    generator = np.random.default_rng(11)
    x, w, dy = (
        generator.integers(-3, 4, shape).astype(np.float64)
        for shape in (sizes, filter_sizes, output)
    )
    geometry = Geometry(
        stride=steps["strides"],
        padding=steps["padding"][::2],
        dilation=steps["dilations"][2:],
        transposed=False,
        groups=groups,
    )
    of_input = dx.gradient(
        "law", sizes, filter_sizes, groups=groups, res_dtype="float32", profile=profile, **steps
    )
    of_filter = dw.gradient("law", sizes, filter_sizes, groups=groups, profile=profile, **steps)

    grad_input = _run(of_input, filters=to_fractal_z(w, groups), out_backprop=to_5hd(dy))
    grad_filter = _run(of_filter, input_x=to_5hd(x), out_backprop=to_5hd(dy))

    product = np.sum(dy * forward(x, w, output, geometry))
    assert product == np.sum(x * from_5hd(grad_input, sizes[1]))
    assert product == np.sum(w * from_fractal_z(grad_filter, filter_sizes, groups))


_VALUES = st.integers(-2, 40)
_DTYPES = st.sampled_from(
    [DataType.FLOAT16, DataType.BF16, DataType.FLOAT, DataType.DOUBLE, DataType.INT8]
)


@st.composite
def changes(draw: st.DrawFn, sample: Sample) -> dict[str, Any]:
    """A few arguments with values of any kind, and tensors of any layout."""
    found: dict[str, Any] = {}
    for name, tensor in sample.tensors.items():
        assert tensor is not None
        rank = len(tensor.shape)
        if draw(st.booleans()):
            found[name] = {"strides": draw(_row(0, 50, rank)), "offset": draw(st.integers(0, 9))}
        elif draw(st.integers(0, 9)) == 0:
            found[name] = {"shape": draw(_row(0, 20, rank)), "dtype": draw(_DTYPES)}
    rows = {"filter_sizes": 4, "para_dict.strides": 2, "para_dict.padding": 4}
    for path, length in {**rows, "para_dict.dilations": 4}.items():
        if draw(st.integers(0, 9)) == 0:
            found[path] = draw(st.lists(_VALUES, min_size=length - 1, max_size=length).map(tuple))
    return found


@st.composite
def calls(draw: st.DrawFn) -> Sample:
    """Calls of either operator that may be in order and may not."""
    sizes, filter_sizes, groups, steps = draw(convolutions())
    profile = draw(st.sampled_from(["ascend910b", "reference"]))
    common: dict[str, Any] = {"values": Values.INTEGERS, "profile": profile, **steps}
    if draw(st.booleans()):
        sample = dx.gradient("fuzz", sizes, filter_sizes, groups=groups, **common)
    else:
        sample = dw.gradient("fuzz", sizes, filter_sizes, groups=groups, **common)
        sample = replace(sample, scalars={**sample.scalars, "raw": draw(st.booleans())})
    return changed(sample, "fuzz", draw(changes(sample)))


def _copies(plan: Plan) -> Iterator[tuple[int, list[int], list[int]]]:
    """Bytes of a value in the workspace, header and view of each copy of a plan."""
    packed = np.array(plan.parameters, dtype=np.int64)
    for kind, stage, first, last in stages_between(packed, 0, plan.units):
        if kind in _COPIES:
            assert last > first
            yield _COPIES[kind], stage[:_HEADER].tolist(), stage[_HEADER:].tolist()
        elif kind in _CORRELATED:
            product = stage[_PLACES:].view(dtype_of(_CORRELATED[kind]))[0]["product"]
            source, result = product["source_image"], product["result_image"]
            views = [source["layout"], product["weight_layout"], result["layout"]]
            yield from _whole(stage, views)
        elif kind == ADD_OUTER:
            outer = stage[_PLACES:].view(dtype_of(OuterStage))[0]
            views = [outer["image"]["layout"], outer["weight_layout"], outer["output"]["layout"]]
            yield from _whole(stage, views)


def _whole(stage: Integers, records: list[np.void]) -> Iterator[tuple[int, list[int], list[int]]]:
    views = (np.frombuffer(record.tobytes(), np.int64) for record in records)
    for place, view in zip(stage[:_PLACES].tolist(), views, strict=True):
        yield 0, [place, 0, int(np.prod(view[2 : 2 + VIEW_RANK]))], view.tolist()


def test_calls_of_both_kinds_are_refused_or_planned_within_their_buffers() -> None:
    planned: list[bool] = []

    @fuzz
    @given(calls())
    def check(sample: Sample) -> None:
        try:
            plan = plan_of(sample)
        except InvalidArgument:
            planned.append(False)
            return
        planned.append(plan.units > 0)
        _assert_is_within_its_buffers(sample, plan)

    check()
    assert planned.count(True) > 100
    assert planned.count(False) > 100


def _assert_is_within_its_buffers(sample: Sample, plan: Plan) -> None:
    if any(algorithm.endswith(": columns") for algorithm in plan.algorithms):
        return  # its stages copy parts of tensors
    names = OPERATORS[sample.operator].tensor_fields
    copied: set[str] = set()
    for value_bytes, (place, start, count, *_), view in _copies(plan):
        tensor = sample.tensors[names[place]]
        assert tensor is not None
        dtype, offset, *axes = view
        sizes, steps = axes[:VIEW_RANK], axes[VIEW_RANK:]
        assert len(sizes) == len(steps) == VIEW_RANK
        assert dtype == tensor.dtype.acl_number
        assert count == np.prod(sizes)
        assert count <= np.prod(tensor.shape)  # rows that no tap reads are in no view
        assert offset == tensor.offset
        last = sum((size - 1) * step for size, step in zip(sizes, steps, strict=True))
        assert offset + last < tensor.tensor().end
        assert (start + count) * value_bytes <= plan.workspace_size
        copied.add(names[place])
    assert copied == set(names)
