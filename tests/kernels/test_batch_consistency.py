"""At the level BATCH the bytes of an entry do not depend on the entries beside it."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from kernels.execution import execute, plan_of
from kernels.samples import REGISTRY_SAMPLES
from kernels.samples.convolution_backward import convolution
from kernels.samples.sample import Bytes, Sample, TensorSample
from opserve_kernels.operator import Accuracy, PlanOptions

BATCH = PlanOptions(batch_consistent=True)
FAST_BATCH = replace(BATCH, accuracy=Accuracy.FAST)
ENTRIES: Mapping[str, tuple[str, ...]] = {
    "convolution": ("input", "output"),
    "convolution_backward": ("grad_output", "input", "grad_input"),
    "conv_depthwise2d": ("self", "out"),
    "im2col_backward": ("grad_output", "out"),
    "conv2d_backprop_input": ("out_backprop", "res_tensor"),
    "im2col": ("self", "out"),
    "conv_tbc_backward": ("self", "input", "grad_input"),
    "conv_tbc": ("self", "out"),
}
"""Tensors with a dimension of the batch; the last is the result."""
BATCH_AXES = {"conv_tbc_backward": 1, "conv_tbc": 1}
"""Where the batch is not the first dimension."""
RANKS = {"im2col_backward": 3, "im2col": 4}
"""Dimensions of the first tensor where it may have one less, without a batch."""


def axis_of(sample: Sample) -> int:
    return BATCH_AXES.get(sample.operator, 0)


def tensors_of(sample: Sample) -> dict[str, TensorSample]:
    """The tensors with entries; none where the call has one entry, or no result with entries."""
    found = {name: sample.tensors[name] for name in ENTRIES.get(sample.operator, ())}
    tensors = {name: tensor for name, tensor in found.items() if tensor is not None}
    mask = sample.scalars.get("output_mask", (True,))
    ranks = [len(tensor.shape) for tensor in tensors.values()]
    has_batch = ranks[:1] == [RANKS.get(sample.operator, ranks[0])] if ranks else False
    axis = axis_of(sample)
    shapes = {tensor.shape[axis] for tensor in tensors.values()}
    complete = len(tensors) == len(found) > 0
    return tensors if complete and has_batch and mask[0] and min(shapes) > 1 else {}


WITH_ENTRIES = [
    sample for samples in REGISTRY_SAMPLES.values() for sample in samples if tensors_of(sample)
]
FAR_STEPS: dict[str, Any] = {"stride": (65, 1), "output_mask": (True, False, False)}
BY_COLUMNS = [
    convolution("columns", (9, 8, 70, 40), (6, 8, 5, 3), **FAR_STEPS),
    convolution("columns of one pixel", (3, 8, 5, 3), (6, 8, 5, 3), **FAR_STEPS),
]
TRANSFORMED = convolution("transforms", (3, 64, 14, 14), (64, 64, 3, 3), padding=(1, 1))


def alone(sample: Sample, entry: int) -> Sample:
    """The call of one entry, where it lies in the memory of the whole batch."""
    changes: dict[str, Any] = {}
    for name, tensor in tensors_of(sample).items():
        strides, axis = tensor.tensor().element_strides, axis_of(sample)
        changes[name] = replace(
            tensor,
            shape=(*tensor.shape[:axis], 1, *tensor.shape[axis + 1 :]),
            strides=strides,
            offset=tensor.offset + entry * strides[axis],
        )
    if sample.operator == "conv2d_backprop_input":
        changes["input_sizes"] = (1, *sample.scalars["input_sizes"][1:])
    return sample.but(sample.name, **changes)


def result_of(sample: Sample, options: PlanOptions) -> bytes:
    name = ENTRIES[sample.operator][-1]
    buffers: dict[str, Bytes] = sample.buffers()
    execute(sample, buffers, options=options)
    result = sample.tensors[name]
    assert result is not None
    return np.moveaxis(result.view(buffers[name]), axis_of(sample), 0).tobytes()


def result_alone(sample: Sample, entry: int, options: PlanOptions) -> bytes:
    """The result of a call of one entry, with the values of the whole batch."""
    name = ENTRIES[sample.operator][-1]
    buffers, one = sample.buffers(), alone(sample, entry)
    execute(one, buffers, options=options)
    result = one.tensors[name]
    assert result is not None
    return np.moveaxis(result.view(buffers[name]), axis_of(sample), 0).tobytes()


def assert_consistent(sample: Sample, options: PlanOptions) -> None:
    (result, *_) = reversed(tensors_of(sample).values())
    whole = result_of(sample, options)
    entries = result.shape[axis_of(sample)]
    size = len(whole) // entries
    for entry in range(entries):
        assert result_alone(sample, entry, options) == whole[entry * size : (entry + 1) * size]


@pytest.mark.parametrize(
    "sample", WITH_ENTRIES, ids=lambda sample: f"{sample.operator}: {sample.name}"
)
def test_each_entry_of_a_batch_has_the_bytes_that_it_has_alone(sample: Sample) -> None:
    assert_consistent(sample, BATCH)


@pytest.mark.parametrize("sample", BY_COLUMNS, ids=lambda sample: sample.name)
def test_blocks_of_columns_end_with_each_entry(sample: Sample) -> None:
    assert plan_of(sample, BATCH).algorithms == ("image: columns by entry",)
    assert_consistent(sample, BATCH)


def test_no_entry_is_transformed_under_accuracy_fast() -> None:
    assert "image: winograd" in plan_of(TRANSFORMED, PlanOptions(accuracy=Accuracy.FAST)).algorithms
    assert "image: winograd" not in plan_of(TRANSFORMED, FAST_BATCH).algorithms
    assert_consistent(TRANSFORMED, FAST_BATCH)


def test_a_limit_of_the_workspace_chooses_no_other_algorithm() -> None:
    limited = replace(BATCH, workspace_limit=0)
    assert plan_of(TRANSFORMED, limited).algorithms == plan_of(TRANSFORMED, BATCH).algorithms
    assert_consistent(TRANSFORMED, limited)
