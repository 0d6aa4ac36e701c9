"""Untrusted array files: every claim is checked before it is used."""

import asyncio
import io
import random
import struct
import tracemalloc
import warnings
import zipfile
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

import numpy as np
import pytest
from numpy.typing import NDArray
from typing_extensions import override

from opserve_server.calls import BodyTooLarge
from opserve_server.core.accounts import Accounts
from opserve_server.core.errors import InvalidArgument
from opserve_server.core.principal import LOCAL
from opserve_server.core.tenants import Resource
from opserve_server.npz import (
    JOINED_BYTES,
    ArrayLimits,
    StoredArray,
    archive_of,
    load_arrays,
    unpacked,
    unpacked_bytes,
)

LIMITS = ArrayLimits(arrays=3, unpacked_bytes=10_000)
PIECE_BYTES = 50
X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)


def load(data: bytes) -> dict[str, NDArray[Any]]:
    return load_arrays(io.BytesIO(data), len(data), limits=LIMITS)


def npz(arrays: dict[str, NDArray[Any]], save: Callable[..., None] = np.savez) -> bytes:
    file = io.BytesIO()
    save(file, **arrays)
    return file.getvalue()


def npy(array: NDArray[Any], *, allow_pickle: bool = False) -> bytes:
    file = io.BytesIO()
    np.save(file, array, allow_pickle=allow_pickle)
    return file.getvalue()


def zipped(packing: int = zipfile.ZIP_STORED, **members: bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", packing) as archive:
        for name, data in members.items():
            archive.writestr(f"{name}.npy", data)
    return file.getvalue()


def forbidden(*_: object) -> None:
    pytest.fail("too late")


def with_header(header: str, data: bytes = b"", version: int = 1) -> bytes:
    text = header.encode("latin-1")
    length = struct.pack("<H" if version == 1 else "<I", len(text))
    return b"\x93NUMPY" + bytes([version, 0]) + length + text + data


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
@pytest.mark.parametrize(
    "array",
    [
        X,
        np.asfortranarray(X),
        X.astype(">f4"),
        X[:, ::2, 1:],
        np.array(3.5, np.float16),
        np.empty((0, 5), np.uint16),
        np.array([True, False]),
        np.arange(3, dtype=np.int64),
    ],
    ids=lambda array: f"{array.dtype.str}{array.shape}",
)
def test_plain_arrays_are_row_major_and_little_endian(
    array: NDArray[Any], save: Callable[..., None]
) -> None:
    loaded = load(npz({"x": array, "y": X}, save))
    assert list(loaded) == ["x", "y"]
    np.testing.assert_array_equal(loaded["x"], array)
    assert loaded["x"].shape == array.shape
    assert loaded["x"].flags.c_contiguous
    assert loaded["x"].dtype == array.dtype.newbyteorder("<")


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
@pytest.mark.parametrize("dtype", ["<f4", ">f4"])
def test_an_array_takes_little_memory_beside_its_bytes_while_it_is_unpacked(
    dtype: str, save: Callable[..., None]
) -> None:
    array = np.arange(2**20, dtype=dtype)
    file = io.BytesIO(npz({"x": array}, save))
    limits = ArrayLimits(arrays=1, unpacked_bytes=array.nbytes + 1000)
    tracemalloc.start()
    try:
        loaded = load_arrays(file, len(file.getbuffer()), limits=limits)["x"]
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert np.array_equal(loaded, array)
    assert loaded.dtype == np.dtype("<f4")
    assert peak_bytes < array.nbytes + 2**20


def test_a_lone_npy_is_called_tensor() -> None:
    np.testing.assert_array_equal(load(npy(X))["tensor"], X)


async def test_archives_written_in_pieces_can_be_loaded_by_numpy() -> None:
    arrays: dict[str, NDArray[Any]] = {
        "a": X,
        "b": np.empty((0, 2), np.float16),
        "c": np.ones(1, np.uint16),
        "d": np.arange(JOINED_BYTES, dtype=np.uint8),
    }
    pieces = [
        piece async for piece in archive_of(stored(name, array) for name, array in arrays.items())
    ]
    assert len(pieces) > 1
    assert max(map(len, pieces)) < JOINED_BYTES + PIECE_BYTES + 512, "and a header"
    with np.load(io.BytesIO(b"".join(pieces)), allow_pickle=False) as loaded:
        assert set(loaded) == set(arrays)
        for name, array in arrays.items():
            np.testing.assert_array_equal(loaded[name], array)
            assert loaded[name].dtype == array.dtype
    limits = ArrayLimits(arrays=len(arrays), unpacked_bytes=2 * JOINED_BYTES)
    again = load_arrays(io.BytesIO(b"".join(pieces)), sum(map(len, pieces)), limits=limits)
    assert set(again) == set(arrays)


async def test_a_small_archive_is_one_piece() -> None:
    (piece,) = [piece async for piece in archive_of([stored("a", X), stored("b", X)])]
    assert set(load_arrays(io.BytesIO(piece), len(piece), limits=LIMITS)) == {"a", "b"}


def stored(name: str, array: NDArray[Any]) -> StoredArray:
    async def chunks() -> AsyncIterator[bytes]:
        data = array.tobytes()
        for start in range(0, len(data), PIECE_BYTES):
            yield data[start : start + PIECE_BYTES]

    return StoredArray(name=name, dtype=array.dtype, shape=array.shape, chunks=chunks())


def test_pickles_are_refused() -> None:
    class Boom:
        @override
        def __reduce__(self) -> tuple[object, ...]:
            return (pytest.fail, ("a pickle was loaded",))

    pickled = npy(np.array([Boom()], dtype=object), allow_pickle=True)
    for data in (pickled, zipped(x=pickled)):
        with pytest.raises(InvalidArgument, match=r"O"):
            load(data)


def test_a_bomb_is_refused_before_it_is_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    bomb = npz({"x": np.zeros(10**7, np.float32)}, np.savez_compressed)
    assert len(bomb) < 100_000
    monkeypatch.setattr(zipfile.ZipFile, "open", forbidden)
    with pytest.raises(BodyTooLarge, match="10000 bytes unpacked"):
        load(bomb)


def test_many_small_members_are_refused_before_they_are_unpacked() -> None:
    with pytest.raises(BodyTooLarge, match="3 arrays"):
        load(npz({f"x{i}": X for i in range(4)}))


def test_a_list_of_members_with_a_false_length_is_not_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    data = npz({f"x{i}": X for i in range(400)})
    count = struct.pack("<HH", 400, 400)
    assert data.count(count) == 1
    monkeypatch.setattr(zipfile, "ZipFile", forbidden)
    with pytest.raises(BodyTooLarge, match="3 arrays"):
        load(data.replace(count, struct.pack("<HH", 1, 1)))


@pytest.mark.parametrize("place", ["comment", "zip64"])
def test_a_second_list_of_members_cannot_be_hidden(place: str) -> None:
    data = npz({"x": X})
    if place == "comment":
        hidden = data[:-2] + struct.pack("<H", 5) + b"hello"
    else:
        locator = struct.pack("<4sLQL", b"PK\x06\x07", 0, 0, 1)
        hidden = data[:-22] + locator + data[-22:]
    with pytest.raises(InvalidArgument, match="unusual archive"):
        load(hidden)


def test_members_are_bounded_together() -> None:
    half = np.zeros(1500, np.float32)
    assert len(load(npz({"x": half}))) == 1
    with pytest.raises(BodyTooLarge):
        load(npz({"x": half, "y": half}))


def test_a_member_that_holds_more_than_it_claims_is_refused() -> None:
    data = bytearray(zipped(zipfile.ZIP_DEFLATED, x=npy(np.zeros(10**6, np.float32))))
    real = struct.pack("<I", 4 * 10**6 + 128)
    claimed = struct.pack("<I", 128 + 40)
    assert data.count(real) == 2  # in the member's own header and in the directory
    with pytest.raises(InvalidArgument, match="tensors"):
        load(bytes(data.replace(real, claimed)))


@pytest.mark.parametrize(
    "shape",
    [
        "(25,)",
        "(23,)",
        "(0, 10000000000000000000000)",
        "(0, 4611686018427387904, 4)",
        "(4611686018427387904, 4611686018427387904)",
        "(-1, -24)",
        "(-24,)",
        "(True, 24)",
        f"({'9' * 5000},)",
        f"({'1,' * 100})",
        "24",
        "[24]",
    ],
    ids=lambda shape: shape[:20],
)
def test_a_shape_that_does_not_fit_the_data_is_refused(shape: str) -> None:
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}}}"
    data = b"" if shape.startswith("(0") else X.tobytes()[: 4 if shape.startswith("(1") else 96]
    for file in (with_header(header, data), zipped(x=with_header(header, data))):
        with pytest.raises(InvalidArgument):
            load(file)


@pytest.mark.parametrize(
    "header",
    [
        "",
        "{}",
        "[1]",
        "{'descr': '<f4'",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1.5,)}",
        "{'descr': '<f4', 'fortran_order': 1, 'shape': (1,)}",
        "{'descr': 'nonsense', 'fortran_order': False, 'shape': (1,)}",
        "{'descr': ('<f4', 'x'), 'fortran_order': False, 'shape': (1,)}",
        "{'descr': [], 'fortran_order': False, 'shape': (1,)}",
        "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), [1]: 2}",
        "__import__('os')",
        "(" * 5000,
        "[" * 300 + "]" * 300,
        "x" * 20_000,
    ],
    ids=lambda header: header[:40],
)
def test_a_header_that_means_harm_is_refused(header: str) -> None:
    for version in (1, 2):
        with pytest.raises(InvalidArgument):
            load(with_header(header, bytes(4), version))


def test_of_a_header_no_more_is_read_than_it_may_have() -> None:
    asked: list[int] = []

    class Recorded(io.BytesIO):
        @override
        def read(self, size: int | None = -1, /) -> bytes:
            asked.append(-1 if size is None else size)
            return super().read(size)

    long = b"\x93NUMPY\x02\x00" + struct.pack("<I", 2**32 - 1) + bytes(50_000)
    with pytest.raises(InvalidArgument, match=r"without a \.npy header"):
        load_arrays(Recorded(long), len(long), limits=LIMITS)
    assert max(asked) <= 10_000
    assert min(asked) >= 0


def test_a_header_of_another_version_is_refused() -> None:
    header = "{'descr': '<f4', 'fortran_order': False, 'shape': (1,)}"
    with pytest.raises(InvalidArgument, match=r"without a \.npy header"):
        load(with_header(header, bytes(4), 3))


@pytest.mark.parametrize("kind", ["<U4", "S4", "<c8", "<M8[s]", "V4"])
def test_values_that_are_not_plain_numbers_are_refused(kind: str) -> None:
    with pytest.raises(InvalidArgument, match="it accepts arrays of bool, float16"):
        load(npy(np.zeros(3, kind)))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"PK",
        b"PK\x03\x04" + bytes(100),
        b"\x93NUMPY",
        b"hello",
        npz({"x": X})[:-30],
        npy(X)[:-1],
    ],
    ids=lambda data: repr(data[:8]),
)
def test_a_broken_file_is_refused(data: bytes) -> None:
    with pytest.raises(InvalidArgument):
        load(data)


def test_a_damaged_member_is_refused() -> None:
    data = bytearray(npz({"x": X}))
    data[200] ^= 0xFF
    with pytest.raises(InvalidArgument, match="CRC"):
        load(bytes(data))


def test_unusual_packing_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="stored or deflated"):
        load(zipped(zipfile.ZIP_LZMA, x=npy(X)))


def test_two_members_of_one_name_are_refused() -> None:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("x.npy", npy(X))
        with pytest.warns(UserWarning, match="Duplicate"):
            archive.writestr("x.npy", npy(X))
    with pytest.raises(InvalidArgument, match="each once"):
        load(file.getvalue())


def test_a_member_that_is_no_array_is_refused() -> None:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("readme.txt", "hello")
    with pytest.raises(InvalidArgument, match=r"names that end in \.npy"):
        load(file.getvalue())


def mutated(data: bytes, chance: random.Random) -> bytes:
    """Some bytes of a file are changed, removed, doubled or those of a number at its limits."""
    changed = bytearray(data)
    for _ in range(chance.randrange(1, 4)):
        # Where what zipfile believes is: the directory and the heads of members.
        start = chance.randrange(len(changed))
        if chance.random() < 0.7:
            start = len(changed) - 1 - chance.randrange(min(len(changed), 160))
        match chance.randrange(4):
            case 0:
                changed[start] = chance.randrange(256)
            case 1:
                limit = chance.choice((b"\xff\xff\xff\xff", bytes(4), b"\x00\x00\x00\x80"))
                changed[start : start + 4] = limit
            case 2:
                del changed[start : start + chance.randrange(1, 9)]
            case _:
                changed[start:start] = changed[start : start + chance.randrange(1, 60)]
        if not changed:
            return b"PK"
    return bytes(changed)


@pytest.mark.parametrize("seed", range(4))
def test_any_bytes_are_arrays_or_refused(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)  # noqa: S311  # no secret
    files = [
        npz({"x": X, "y": np.zeros(2, np.int8)}),
        npz({"\u00e9": X}, np.savez_compressed),
        npy(X),
    ]
    with (tmp_path / "sent").open("wb+") as on_disk:
        for number in range(250):
            data = mutated(chance.choice(files), chance)
            file: IO[bytes] = io.BytesIO(data)
            if number % 2:
                on_disk.seek(0)
                on_disk.truncate()
                on_disk.write(data)
                on_disk.flush()
                file = on_disk
            for read in (unpacked_bytes, load_arrays):
                with suppress(InvalidArgument, BodyTooLarge), warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # of zipfile: a duplicate name
                    read(file, len(data), limits=LIMITS)


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (16, b"\xff\xff\xff\x7f"),  # the directory begins behind the end of the file
        (12, b"\xff\x0f\x00\x00"),  # it is longer than the file
        (12, b"\x01\x00\x00\x00"),
    ],
)
def test_a_directory_in_a_wrong_place_is_refused(place: int, value: bytes) -> None:
    data = bytearray(npz({"x": X}))
    end = len(data) - 22 + place
    data[end : end + len(value)] = value
    with suppress(BodyTooLarge), pytest.raises(InvalidArgument, match="tensors"):
        load(bytes(data))


def test_a_name_that_is_no_text_is_refused() -> None:
    data = bytearray(npz({"\u00e9": X}))
    data = data.replace("\u00e9".encode(), b"\xff\xfe")
    with pytest.raises(InvalidArgument, match=r"broken \.npz"):
        load(bytes(data))


def npz_of(count: int) -> bytes:
    file = io.BytesIO()
    np.savez(file, x=np.zeros(count, np.float32), y=np.float64(1), z=np.zeros((1, 2, 0), np.uint8))
    return file.getvalue()


def npy_of(header: bytes) -> bytes:
    """A file of twelve bytes with another header for a shape of three."""
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + bytes(12)


SHAPE = b"{'descr': '<f4', 'fortran_order': False, 'shape': (%s), }\n"


@pytest.mark.parametrize(
    ("content", "threads"),
    [
        (npz_of(3000), 0),
        (npz_of(5000), 2),
        (npy_of(SHAPE % b"3,"), 0),
        (npy_of(SHAPE % b"1+1+1,"), 1),  # whose parsing may take long
        (npy_of(SHAPE % (b"1," * 3000)), 1),
        (npy_of(SHAPE % b"3," + b"(" * 3000), 1),
        (npy_of(SHAPE % (b"1" * 3000)), 1),
    ],
    ids=["small", "large", "npy", "sum", "long", "text behind", "digits"],
)
async def test_only_a_small_file_with_plain_headers_is_read_without_a_thread(
    monkeypatch: pytest.MonkeyPatch, content: bytes, threads: int
) -> None:
    begun: list[object] = []

    async def in_thread(
        function: Callable[..., object], *args: object, **options: object
    ) -> object:
        begun.append(function)
        return function(*args, **options)

    monkeypatch.setattr(asyncio, "to_thread", in_thread)
    in_flight = Accounts().of(LOCAL.tenant).reserve(Resource.BYTES_IN_FLIGHT)
    limits = ArrayLimits(arrays=3, unpacked_bytes=2**20)
    with suppress(InvalidArgument):  # of the arrays whose header is not plain
        await unpacked(io.BytesIO(content), len(content), limits=limits, in_flight=in_flight)
    assert len(begun) == threads
    in_flight.update(0)
