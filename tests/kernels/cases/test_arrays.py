"""Arrays of cases: elements by their place in the storage, gaps and outputs recognisable."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from opserve_kernels.cases.arrays import arrays_of
from opserve_kernels.cases.case import Case, Fill, Kind, TensorCase
from opserve_kernels.cases.fill import GAP_BITS, UNWRITTEN_BITS, bits_of, drawn, key_of
from opserve_kernels.errors import InvalidArgument
from opserve_kernels.formats import from_5hd, from_fractal_z, to_5hd, to_fractal_z
from opserve_kernels.tensor import DataType, Format

FILL = Fill(kind=Kind.NORMAL)


def _case(**tensors: TensorCase) -> Case:
    return Case(operator="im2col_backward", profile="ascend910b", tensors=tensors, arguments={})


def _input(shape: tuple[int, ...], **changes: Any) -> TensorCase:
    return replace(TensorCase(shape=shape, dtype=DataType.FLOAT, fill=FILL), **changes)


def test_contiguous_elements_are_the_numbers_in_order() -> None:
    case = _case(grad_output=_input((3, 4, 5)))

    placed = arrays_of(case, 5)["grad_output"]

    expected = drawn(key_of(case.id, 5, "grad_output"), 60, FILL, DataType.FLOAT)
    np.testing.assert_array_equal(placed.storage, expected)
    np.testing.assert_array_equal(placed.elements, expected.reshape(3, 4, 5))


def test_elements_of_a_view_are_numbered_by_their_place_in_the_storage() -> None:
    view = _input((2, 3), strides=(1, 4), offset=2, storage_shape=(3, 5))
    case = _case(grad_output=view)
    numbers = drawn(key_of(case.id, 0, "grad_output"), 15, FILL, DataType.FLOAT)

    placed = arrays_of(case, 0)["grad_output"]

    assert placed.elements.tolist() == numbers[[[2, 6, 10], [3, 7, 11]]].tolist()
    outside = np.delete(bits_of(placed.storage), [2, 3, 6, 7, 10, 11])
    assert set(outside.tolist()) == {GAP_BITS[DataType.FLOAT]}


def test_element_that_a_view_repeats_is_one_number() -> None:
    placed = arrays_of(_case(grad_output=_input((4, 3), strides=(0, 1))), 0)["grad_output"]

    assert placed.storage.size == 3
    assert len(np.unique(placed.elements)) == 3


@pytest.mark.parametrize("dtype", GAP_BITS)
def test_outputs_are_nan_and_their_gaps_another(dtype: DataType) -> None:
    placed = arrays_of(_case(out=TensorCase(shape=(2, 2), dtype=dtype, strides=(3, 1))), 0)["out"]

    unwritten, gap = UNWRITTEN_BITS[dtype], GAP_BITS[dtype]
    assert bits_of(placed.storage).tolist() == [unwritten, unwritten, gap, unwritten, unwritten]


def test_empty_tensors_have_empty_arrays() -> None:
    tensors = arrays_of(_case(grad_output=_input((0, 4), offset=2), out=_output((3, 0))), 0)

    assert tensors["grad_output"].elements.shape == (0, 4)
    assert tensors["out"].storage.size == 0


def _output(shape: tuple[int, ...]) -> TensorCase:
    return TensorCase(shape=shape, dtype=DataType.FLOAT16)


def test_blocks_hold_nothing_beyond_their_channels() -> None:
    image = _input((2, 2, 3, 4, 16), format=Format.NC1HWC0, fill=replace(FILL, plain=(2, 20, 3, 4)))
    weight_fill = replace(FILL, plain=(32, 4, 3, 3), groups=4)
    weight = _input((9, 2, 16, 16), format=Format.FRACTAL_Z, fill=weight_fill)

    given = arrays_of(_case(image=image, weight=weight), 0)

    blocks, fractal = given["image"].elements, given["weight"].elements
    np.testing.assert_array_equal(to_5hd(from_5hd(blocks, 20)), blocks)
    np.testing.assert_array_equal(
        to_fractal_z(from_fractal_z(fractal, (32, 4, 3, 3), 4), 4), fractal
    )
    assert np.count_nonzero(blocks) == 2 * 20 * 3 * 4
    assert np.count_nonzero(fractal) == 32 * 4 * 9


def test_tensor_without_a_dtype_has_no_array() -> None:
    with pytest.raises(InvalidArgument, match="UNDEFINED"):
        arrays_of(_case(grad_output=_input((2,), dtype=DataType.UNDEFINED)), 0)
