"""Tensors: arrays up and down, views with strides and offsets, dtypes and formats."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from client.fake_service import FakeService
from client.samples import Array, convolution, numbers
from opserve.v1 import tensor_pb2
from opserve_client import AclnnError, AclrtError, DataType, Format, Session
from opserve_client.data_types import (
    DTypeLike,
    FormatLike,
    data_type_of,
    data_type_on_wire,
    format_named,
    format_of_rank,
    format_on_wire,
)
from opserve_client.tensors import message_of
from opserve_kernels.tensor import NUMPY_DTYPES

BF16 = np.dtype(ml_dtypes.bfloat16)


@pytest.mark.parametrize(
    "dtype",
    NUMPY_DTYPES.values(),
    ids=str,
)
def test_every_dtype_survives_a_round_trip(session: Session, dtype: np.dtype[Any]) -> None:
    array = numbers(2, 3).astype(dtype)
    back = session.upload(array).download()
    assert back.dtype == array.dtype
    np.testing.assert_array_equal(back, array)


@pytest.mark.parametrize(
    "array",
    [
        numbers(3, 4).T,
        numbers(6, 4)[::2, 1:3],
        numbers(2, 3)[::-1],
        numbers(2, 3, dtype=">f4"),
        numbers(),
        numbers(0, 3),
        np.asfortranarray(numbers(3, 4)),
    ],
    ids=["transposed", "sliced", "reversed", "big-endian", "scalar", "empty", "fortran"],
)
def test_elements_arrive_from_an_array_of_any_memory_layout(session: Session, array: Array) -> None:
    back = session.upload(array).download()
    assert back.shape == array.shape
    np.testing.assert_array_equal(back, array)


def test_a_view_is_read_through_its_strides_and_offset(session: Session) -> None:
    storage = numbers(4, 5)
    whole = session.upload(storage)
    view = session.tensor(whole.buffer, (3, 2), "float32", strides=(1, 10), offset=6)
    np.testing.assert_array_equal(
        view.download(), storage.reshape(-1)[6:][[[0, 10], [1, 11], [2, 12]]]
    )


def test_a_view_is_written_without_touching_its_neighbours(session: Session) -> None:
    storage = numbers(4, 5)
    whole = session.upload(storage)
    view = session.tensor(whole.buffer, (4, 2), "FLOAT", strides=(5, 2), offset=1)
    view.upload(np.full((4, 2), 77, np.float32))
    expected = storage.copy()
    expected[:, 1:4:2] = 77
    np.testing.assert_array_equal(whole.download(), expected)


@pytest.mark.parametrize("wrong", [numbers(3, 2), numbers(2, 3, dtype=np.float64)])
def test_a_tensor_takes_its_own_shape_and_dtype_only(session: Session, wrong: Array) -> None:
    with pytest.raises(AclnnError, match=r"array does not accept .*; it accepts \[2, 3\] float32"):
        session.empty((2, 3), "float32").upload(wrong)


def test_strides_that_do_not_fit_are_refused_not_followed(session: Session) -> None:
    buffer = session.allocate(64)
    for strides in ((4, -1), (1,), (1, 2, 3)):
        with pytest.raises(AclnnError, match="it accepts 2 strides of at least 0") as raised:
            session.tensor(buffer, (2, 2), "FLOAT", strides=strides).download()
        assert (raised.value.code, raised.value.parameter) == (161002, "strides")


def test_a_place_that_cannot_be_is_not_read(session: Session) -> None:
    buffer = session.allocate(64)
    for offset in (-1, 2**63 - 1):
        with pytest.raises(AclrtError, match=r"107000 .* offset does not accept"):
            session.tensor(buffer, (2,), "FLOAT", offset=offset).download()
    with pytest.raises(AclnnError, match=r"shape does not accept .* of at least 0"):
        session.tensor(buffer, (2, -1), "FLOAT").download()


def test_array_likes_of_numpy_are_uploaded(session: Session) -> None:
    np.testing.assert_array_equal(session.upload([[1.0, 2.0]]).download(), [[1.0, 2.0]])


@pytest.mark.parametrize("wrong", [[[1], [2, 3]], ["a"], [1j], object(), None])
def test_values_without_a_dtype_of_the_vendor_are_refused_by_name(
    session: Session, wrong: Any
) -> None:
    with pytest.raises(AclnnError, match=r"array does not accept") as raised:
        session.upload(wrong)
    assert raised.value.code == 161002


def test_a_buffer_is_written_and_read_in_parts(session: Session) -> None:
    buffer = session.allocate(8)
    buffer.write(b"abcdefgh")
    buffer.write(np.array([65, 66], np.uint8), offset=3)
    assert buffer.read(offset=2, size_bytes=4) == b"cABf"
    assert buffer.read() == b"abcABfgh"
    assert buffer.read(offset=8) == b""


def test_handles_name_freed_objects(session: Session, fake: FakeService) -> None:
    buffer = session.allocate(8)
    assert repr(buffer) == "<Buffer 1 of session 5e55...: 8 bytes, open>"
    buffer.free()
    assert fake.buffers == {}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("FLOAT", DataType.FLOAT),
        ("float32", DataType.FLOAT),
        (np.float16, DataType.FLOAT16),
        (np.dtype("<f8"), DataType.DOUBLE),
        (np.dtype(">i4"), DataType.INT32),
        ("BF16", DataType.BF16),
        ("bfloat16", DataType.BF16),
        (ml_dtypes.bfloat16, DataType.BF16),
        (BF16, DataType.BF16),
        (bool, DataType.BOOL),
        (DataType.UINT16, DataType.UINT16),
        ("UNDEFINED", DataType.UNDEFINED),
        ("ACL_FLOAT", DataType.FLOAT),
        ("ACL_DT_UNDEFINED", DataType.UNDEFINED),
        (0, DataType.FLOAT),
        (27, DataType.BF16),
        (-1, DataType.UNDEFINED),
    ],
)
def test_dtypes_have_many_names(given: DTypeLike, expected: DataType) -> None:
    assert data_type_of(given) is expected


@pytest.mark.parametrize(
    "unknown", ["complex64", "half?", np.dtype("U3"), object, 5, -2, True, "ACL_UNDEFINED"]
)
def test_an_unknown_dtype_is_refused_by_name(unknown: DTypeLike) -> None:
    with pytest.raises(
        AclnnError, match=r"dtype does not accept .*; it accepts FLOAT, FLOAT16"
    ) as raised:
        data_type_of(unknown)
    assert (raised.value.code, raised.value.parameter) == (161002, "dtype")


@pytest.mark.parametrize("unknown", ["CHWN", 5, True, "ACL_FORMAT_FRACTAL_Z_3D", None])
def test_an_unknown_format_is_refused_by_name(unknown: Any) -> None:
    with pytest.raises(AclnnError, match=f"format does not accept {unknown}; it accepts NCHW"):
        format_named(unknown)


@pytest.mark.parametrize("named", ["FRACTAL_Z_3D", "ACL_FRACTAL_Z_3D", 33, Format.FRACTAL_Z_3D])
def test_formats_have_the_vendors_names_and_numbers(named: FormatLike) -> None:
    assert format_named(named) is Format.FRACTAL_Z_3D
    assert format_named("ACL_FORMAT_NCHW") is format_named(0) is Format.NCHW


def test_a_tensor_may_name_dtype_and_format_by_number(session: Session) -> None:
    spec = session.tensor(None, (1, 2, 3, 4), 1, format=0).spec
    assert (spec.dtype, spec.format) == (DataType.FLOAT16, Format.NCHW)


def test_an_output_may_name_its_dtype_by_number(session: Session) -> None:
    grad_input = session.run(convolution(grad_input=1)).grad_input
    assert grad_input is not None
    assert grad_input.dtype == np.float16


def test_the_protocol_has_every_dtype_and_format() -> None:
    assert set(map(data_type_on_wire, DataType)) == set(tensor_pb2.DataType.values())
    assert set(map(format_on_wire, Format)) == set(tensor_pb2.Format.values())
    assert data_type_on_wire(DataType.BF16) == tensor_pb2.DATA_TYPE_BF16


def test_undefined_has_no_elements(session: Session) -> None:
    with pytest.raises(AclnnError, match="dtype does not accept UNDEFINED; it accepts FLOAT"):
        session.empty((2,), DataType.UNDEFINED)


@pytest.mark.parametrize(
    ("rank", "expected"), [(0, "ND"), (2, "ND"), (3, "NCL"), (4, "NCHW"), (5, "NCDHW"), (6, "ND")]
)
def test_the_format_follows_the_rank(session: Session, rank: int, expected: str) -> None:
    assert format_of_rank(rank) == expected
    assert session.empty((1,) * rank, "FLOAT").spec.format == expected


def test_a_tensor_travels_with_all_its_parts(session: Session) -> None:
    buffer = session.allocate(64)
    tensor = session.tensor(
        buffer, [2, 3], "BF16", strides=[1, 2], offset=4, format="NHWC", storage_shape=[5, 6]
    )
    assert tensor.shape == (2, 3)
    assert message_of(tensor.spec) == tensor_pb2.Tensor(
        shape=[2, 3],
        dtype=tensor_pb2.DATA_TYPE_BF16,
        format=tensor_pb2.FORMAT_NHWC,
        strides=tensor_pb2.Int64Array(values=[1, 2]),
        offset=4,
        storage_shape=tensor_pb2.Int64Array(values=[5, 6]),
        buffer=buffer.handle,
    )
