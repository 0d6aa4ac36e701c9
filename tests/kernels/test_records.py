"""Records: what a plan puts under a name is what a compiled loop reads under it."""

from dataclasses import dataclass
from typing import Annotated, NamedTuple
from unittest.mock import Mock

import numpy as np
import pytest

from opserve_kernels import records
from opserve_kernels.loops import compiled
from opserve_kernels.records import decode, dtype_of, encode


class Inner(NamedTuple):
    sizes: tuple[int, int, int]
    step: int


class Outer(NamedTuple):
    entries: int
    left: Inner
    layout: Annotated[tuple[int, ...], 3]
    right: Inner


RECORD = Outer(
    entries=1,
    left=Inner(sizes=(2, 3, 4), step=5),
    layout=(6, 7, 8),
    right=Inner(sizes=(20, 21, 22), step=23),
)


@compiled()
def _sum_of(inner: Inner, times: int) -> int:
    return times * (inner.sizes[0] + inner.sizes[1] + inner.sizes[2]) + inner.step


@compiled()
def _read(record: Outer) -> tuple[int, int, int]:
    return record.entries, record.layout[2], _sum_of(record.right, 1000)


@dataclass(slots=True)
class State:
    found: int
    left: int


@compiled()
def _find(state: State, value: int) -> None:
    state.found = value
    state.left -= 1


def test_a_record_travels_as_its_integers_in_the_order_of_its_fields() -> None:
    assert encode(RECORD) == (*range(1, 9), 20, 21, 22, 23)


def test_a_loop_reads_the_fields_of_a_record_by_their_names() -> None:
    packed = np.array(encode(RECORD), np.int64)
    (record,) = packed.view(dtype_of(Outer))
    assert _read(record) == (1, 8, 1000 * (20 + 21 + 22) + 23)


def test_decoding_reverses_encoding_with_integers_of_python() -> None:
    record = decode(Outer, np.array(encode(RECORD), np.int64))
    assert record == RECORD
    assert type(record.left) is Inner
    assert {type(number) for number in (record.entries, record.layout[0], record.left.step)} == {
        int
    }


def test_a_type_is_examined_once_however_often_its_rows_are_decoded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    numbers = np.array(encode(RECORD), np.int64)
    decode(Outer, numbers)
    looked_up = Mock(side_effect=AssertionError("annotations were looked up again"))
    monkeypatch.setattr(records, "get_type_hints", looked_up)
    assert decode(Outer, numbers).entries == 1


def test_a_loop_writes_the_fields_of_a_dataclass_in_place() -> None:
    numbers = np.array([0, 3], np.int64)
    (state,) = numbers.view(dtype_of(State))
    _find(state, 7)
    assert numbers.tolist() == [7, 2]
