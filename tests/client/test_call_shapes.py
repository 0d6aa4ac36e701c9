"""Shapes of calls: equal for calls of one request, and different where any call would differ."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from client.samples import convolution, numbers
from opserve_client import CubeMathType, Session
from opserve_client.call_shapes import remember, shape_of

CALL = convolution()


def changed(**values: Any) -> Any:
    return shape_of(replace(CALL, **values))


def test_calls_that_differ_in_elements_alone_have_one_shape() -> None:
    shape = shape_of(CALL)
    assert shape is not None
    assert changed(input=numbers(2, 3, 5, 5, seed=9)) == shape
    assert changed(padding=(1, 1)) == shape
    assert hash(changed(input=numbers(2, 3, 5, 5, seed=9))) == hash(shape)


@pytest.mark.parametrize(
    "values",
    [
        {"groups": True},
        {"groups": 2},
        {"transposed": 0},
        {"padding": [True, True]},
        {"padding": [1, 2]},
        {"padding": 1},
        {"output_mask": [1, 1, 1]},
        {"input": None},
        {"input": numbers(2, 3, 5, 6)},
        {"input": numbers(2, 3, 5, 5, dtype=np.float16)},
        {"input": numbers(2, 3, 5, 5).astype(">f4")},
        {"grad_input": "FLOAT16"},
        {"grad_input": np.float16},
        {"bias_sizes": None},
    ],
)
def test_any_other_difference_makes_another_shape(values: dict[str, Any]) -> None:
    other = changed(**values)
    assert other is not None
    assert other != shape_of(CALL)


def test_a_member_of_an_enumeration_has_a_shape() -> None:
    assert changed(cube_math_type=CubeMathType.USE_FP16) is not None


@pytest.mark.parametrize(
    "values",
    [
        {"input": [[1.0]]},
        {"input": np.ma.masked_array(numbers(2, 3, 5, 5))},
        {"groups": 1.0},
        {"groups": np.int64(1)},
        {"padding": [1.0, 1]},
        {"padding": np.ones(2, np.int64)},
        {"stride": range(1, 3)},
    ],
)
def test_a_call_with_another_kind_of_value_has_none(values: dict[str, Any]) -> None:
    assert changed(**values) is None


def test_the_place_of_a_tensor_on_the_device_is_part_of_the_shape(session: Session) -> None:
    first, other = (session.upload(numbers(2, 3, 5, 5)) for _ in range(2))
    assert changed(input=first) == changed(input=first) != changed(input=other)


def test_few_requests_are_kept() -> None:
    known: dict[Any, int] = {}
    for number in range(100):
        remember(known, (number,), number)
        assert known[number,] == number
        assert len(known) <= 32
    remember(known, None, 1)
    assert None not in known
