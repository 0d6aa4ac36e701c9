"""Untrusted .npz and .npy files: bounded before they are unpacked, never unpickled."""

import asyncio
import io
import re
import struct
import zipfile
import zlib
from collections.abc import AsyncGenerator, AsyncIterable, Generator, Iterable
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from math import prod
from tokenize import TokenError
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from opserve_kernels.errors import shortened
from opserve_server.calls import BodyTooLarge, malformed
from opserve_server.core.accounts import Reservation
from opserve_server.core.errors import InvalidArgument
from opserve_server.core.one_shot import NUMPY_TYPES
from opserve_server.core.waiting import to_its_end

Array = NDArray[Any]
SINGLE = "tensor"
"""Name of the array of a lone .npy file."""

_ZIP_MAGIC = b"PK"
_METHODS = {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}
_ENCRYPTED = 0x1
# The last record of an archive, from its signature on: disks, entries, directory and comment.
_END = struct.Struct("<4s4H2LH")
_END_MAGIC = b"PK\x05\x06"
_ZIP64_MAGIC = b"PK\x06\x07"
_ZIP64_BYTES = 20
_ENTRY_BYTES = 4096

_READERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
"""Readers by version. NumPy writes version 3.0 only for named fields, which plain numbers never
have."""
_HEADER_START, _HEADER_LIMIT = 10, 10_000
"""Bytes before the text of a header of version 1.0, and most bytes of a header."""
_PIECE_BYTES = 2**17
JOINED_BYTES = 2**14
"""Pieces of an archive have at least so many bytes, and those of a chunk; a small one is whole."""
_SMALL_BYTES = 2**14
"""Size of a file, and of its arrays, that is read at once."""
_PLAIN_HEADER = re.compile(
    rb"\{'descr': '[<>|=][a-z][0-9]{1,2}', 'fortran_order': (?:True|False), "
    rb"'shape': \((?:[0-9]{1,19}, ?){0,8}[0-9]{0,19}\), \} *\n"
)
"""Header as NumPy writes it: reading it takes microseconds, and another one up to 60 ms."""
_SIZES = range(2**63)
_TYPES = frozenset(
    ordered for dtype in NUMPY_TYPES.values() for ordered in (dtype, dtype.newbyteorder(">"))
)
_ALLOWED_TYPES = ", ".join(sorted({str(dtype) for dtype in NUMPY_TYPES.values()}))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Header:
    """The header of a .npy file."""

    dtype: np.dtype[Any]
    fortran_order: bool
    shape: tuple[int, ...]


# Errors of zipfile for invalid bytes, beside BadZipFile: it checks few numbers of a directory
# before it computes with them.
_ZIP_ERRORS = (
    zipfile.BadZipFile,
    NotImplementedError,  # an unsupported version or compression
    RuntimeError,  # an encrypted member
    EOFError,
    zlib.error,
    struct.error,
    ValueError,  # a negative offset; names that are not UTF-8
    OverflowError,  # an offset beyond the range of a file
    OSError,  # the same, of a file on disk
)
# Errors of NumPy's reader for invalid headers, beside the documented ValueError.
_HEADER_ERRORS = (
    ValueError,
    SyntaxError,  # a descr that names no dtype
    TypeError,  # keys that have no order
    RecursionError,  # brackets in brackets
    MemoryError,  # the same, deeper
    LookupError,  # another version; a part of descr without a name
    TokenError,  # an open bracket, where NumPy looks for numbers of Python 2
    Warning,  # numbers of Python 2 or an old name of a dtype, where warnings are errors
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayLimits:
    """Bounds on a file.

    Attributes:
        arrays: Number of arrays.
        unpacked_bytes: Bytes of all arrays, unpacked.
        plain_headers: Whether only headers as NumPy writes them are read.
    """

    arrays: int
    unpacked_bytes: int
    plain_headers: bool = False


class _UnusualHeaderError(Exception):
    """A header is not as NumPy writes it."""


def load_arrays(file: IO[bytes], size_bytes: int, *, limits: ArrayLimits) -> dict[str, Array]:
    """The arrays of a file by name, row-major and little-endian.

    Args:
        file: An .npz file, or one .npy file, whose array is named "tensor".
        size_bytes: Its size.
        limits: Bounds on its contents.

    Raises:
        InvalidArgument: 100000, it is no such file, or has values other than plain numbers.
        BodyTooLarge: 207012, its contents exceed the limits.
    """
    if not _is_zip(file):
        return {SINGLE: _read_array(SINGLE, file, size_bytes, limits)}
    with _opened(file, size_bytes, limits) as archive:
        return _read_members(archive, limits)


def unpacked_bytes(file: IO[bytes], size_bytes: int, *, limits: ArrayLimits) -> int:
    """Bytes of the arrays of a file after unpacking, at most; raises as load_arrays does."""
    if not _is_zip(file):
        return size_bytes
    with _opened(file, size_bytes, limits) as archive:
        return sum(member.file_size for member in _members(archive, limits))


async def unpacked(
    file: IO[bytes], size_bytes: int, *, limits: ArrayLimits, in_flight: Reservation
) -> dict[str, Array]:
    """The arrays of a file, as from load_arrays.

    Their bytes are reserved, or rejected beyond the tenant's quota (QuotaExceeded), before anything
    is unpacked. A file of some KiB with plain headers is read at once, and any other in a thread.
    A thread cannot be stopped, so a cancellation waits for its end: the caller keeps the
    reservation and the file for as long as the thread uses them.
    """
    small = size_bytes <= _SMALL_BYTES
    if small:
        claimed = unpacked_bytes(file, size_bytes, limits=limits)
    else:
        reading = asyncio.to_thread(unpacked_bytes, file, size_bytes, limits=limits)
        claimed = await to_its_end(reading)
    in_flight.check(claimed)
    in_flight.update(claimed)
    if small and claimed <= _SMALL_BYTES:
        with suppress(_UnusualHeaderError):
            return load_arrays(file, size_bytes, limits=replace(limits, plain_headers=True))
    return await to_its_end(asyncio.to_thread(load_arrays, file, size_bytes, limits=limits))


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredArray:
    """An array whose bytes are produced in pieces.

    Attributes:
        name: Its name in the file.
        dtype: Type of the elements.
        shape: Their number in each dimension.
        chunks: Its bytes, row-major.
    """

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    chunks: AsyncIterable[bytes]


async def archive_of(arrays: Iterable[StoredArray]) -> AsyncGenerator[bytes]:
    """An .npz file in pieces, not compressed; no large array is ever in memory as a whole.

    Sizes and CRC-32 of a member follow its bytes, in a data descriptor, and in the directory.
    """
    written = _Written()
    with zipfile.ZipFile(written, "w", zipfile.ZIP_STORED) as archive:
        for array in arrays:
            with archive.open(f"{array.name}.npy", "w", force_zip64=True) as member:
                npy.write_array_header_1_0(
                    member,
                    {
                        "descr": npy.dtype_to_descr(array.dtype),
                        "fortran_order": False,
                        "shape": array.shape,
                    },
                )
                async for chunk in array.chunks:
                    member.write(chunk)
                    if written.size_bytes >= JOINED_BYTES:
                        yield written.taken()
    yield written.taken()


class _Written:
    """A file without seek; zipfile then writes sizes and checksums after a member.

    Attributes:
        size_bytes: Bytes written since they were last taken.
    """

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self.size_bytes = 0

    def write(self, data: bytes, /) -> int:
        self._parts.append(data)
        self.size_bytes += len(data)
        return len(data)

    def flush(self) -> None:
        """Does nothing: no data is buffered."""

    def close(self) -> None:
        """Does nothing: no file is open."""

    def taken(self) -> bytes:
        """The bytes written since the previous call."""
        parts, self._parts, self.size_bytes = self._parts, [], 0
        return b"".join(parts)


def _is_zip(file: IO[bytes]) -> bool:
    file.seek(0)
    magic = file.read(len(_ZIP_MAGIC))
    file.seek(0)
    return magic == _ZIP_MAGIC


@contextmanager
def _opened(file: IO[bytes], size_bytes: int, limits: ArrayLimits) -> Generator[zipfile.ZipFile]:
    """An archive; any error of zipfile inside the block is an invalid argument."""
    _check_directory(file, size_bytes, limits)
    try:
        with zipfile.ZipFile(file) as archive:
            yield archive
    except _ZIP_ERRORS as error:
        given = f"a broken .npz ({shortened(str(error)) or type(error).__name__})"
        allowed = "an .npz as numpy.savez writes it"
        raise malformed("tensors", given=given, allowed=allowed) from error


def _check_directory(file: IO[bytes], size_bytes: int, limits: ArrayLimits) -> None:
    """Bounds the list of members, which zipfile reads as a whole."""
    file.seek(max(size_bytes - _END.size - _ZIP64_BYTES, 0))
    tail = file.read()
    file.seek(0)
    if len(tail) < _END.size or tail[-_END.size :][:4] != _END_MAGIC or tail[:4] == _ZIP64_MAGIC:
        raise malformed(
            "tensors", given="an unusual archive", allowed="an .npz below 4 GiB, without comment"
        )
    _, _, _, _, entries, directory_bytes, _, _ = _END.unpack(tail[-_END.size :])
    if entries > limits.arrays or directory_bytes > limits.arrays * _ENTRY_BYTES:
        raise BodyTooLarge("tensors", limit=limits.arrays, unit="arrays")


def _members(archive: zipfile.ZipFile, limits: ArrayLimits) -> list[zipfile.ZipInfo]:
    """The members, within the limits."""
    members = archive.infolist()
    if len(members) > limits.arrays:
        raise BodyTooLarge("tensors", limit=limits.arrays, unit="arrays")
    # A member never unpacks to more than it claims: zipfile stops there and finds a wrong checksum.
    if sum(member.file_size for member in members) > limits.unpacked_bytes:
        raise BodyTooLarge("tensors", limit=limits.unpacked_bytes, unit="bytes unpacked")
    return members


def _read_members(archive: zipfile.ZipFile, limits: ArrayLimits) -> dict[str, Array]:
    arrays: dict[str, Array] = {}
    for member in _members(archive, limits):
        name = member.filename.removesuffix(".npy")
        if name in arrays or name == member.filename:
            raise _refused(name, given="this name", allowed="names that end in .npy, each once")
        if member.compress_type not in _METHODS or member.flag_bits & _ENCRYPTED:
            raise _refused(name, given="this packing", allowed="members stored or deflated")
        with archive.open(member) as file:
            arrays[name] = _read_array(name, file, member.file_size, limits)
    return arrays


def _read_array(name: str, file: IO[bytes], size_bytes: int, limits: ArrayLimits) -> Array:
    header = _read_header(name, file, limits)
    expected = prod(header.shape) * header.dtype.itemsize
    if expected != size_bytes - file.tell():
        raise _refused(name, given=f"shape {header.shape}", allowed="a shape that fits the data")
    flat = _read_elements(name, file, header.dtype, prod(header.shape))
    try:
        if header.fortran_order:
            return np.ascontiguousarray(flat.reshape(header.shape[::-1]).T)
        return flat.reshape(header.shape)
    except ValueError as error:  # sizes that NumPy cannot hold beside a 0
        raise _refused(name, given=f"shape {header.shape}", allowed="NumPy's shapes") from error


def _read_elements(name: str, file: IO[bytes], dtype: np.dtype[Any], count: int) -> Array:
    """The elements in order, little-endian.

    Pieces limit the time for which zipfile holds the interpreter lock while the event loop waits,
    and an array takes no more memory than its bytes.
    """
    flat = np.empty(count, dtype.newbyteorder("<"))
    step = _PIECE_BYTES // dtype.itemsize
    for start in range(0, count, step):
        part = flat[start : start + step]
        piece = file.read(part.nbytes)
        if len(piece) != part.nbytes:
            given = f"{start * dtype.itemsize + len(piece)} bytes"
            raise _refused(name, given=given, allowed=f"the {flat.nbytes} of its shape")
        part[:] = np.frombuffer(piece, dtype)
    return flat


def _read_header(name: str, file: IO[bytes], limits: ArrayLimits) -> _Header:
    """The header; the file is then at the first element.

    NumPy's reader reads as many bytes as a header claims, so it gets no more than a header may
    have.
    """
    begin = file.read(_HEADER_LIMIT)
    if limits.plain_headers and not _is_plain(begin):
        raise _UnusualHeaderError
    head = io.BytesIO(begin)
    try:
        read = _READERS[npy.read_magic(head)]
        shape, fortran_order, dtype = read(head, max_header_size=_HEADER_LIMIT)
    except _HEADER_ERRORS as error:
        allowed = "a .npy file with plain numbers"
        raise _refused(name, given="bytes without a .npy header", allowed=allowed) from error
    if dtype not in _TYPES:
        raise _refused(name, given=dtype.str, allowed=f"arrays of {_ALLOWED_TYPES}")
    if any(isinstance(size, bool) or size not in _SIZES for size in shape):
        raise _refused(name, given=f"shape {shape}", allowed="sizes of at least 0")
    file.seek(head.tell())
    return _Header(dtype=dtype, fortran_order=fortran_order, shape=shape)


def _is_plain(begin: bytes) -> bool:
    """Whether a file begins with a header of version 1.0 as NumPy writes it, and nothing more."""
    found = _PLAIN_HEADER.match(begin, _HEADER_START)
    length = int.from_bytes(begin[_HEADER_START - 2 : _HEADER_START], "little")
    return found is not None and found.end() == _HEADER_START + length


def _refused(name: str, *, given: object, allowed: str) -> InvalidArgument:
    return malformed(f"tensors.{shortened(name)}", given=given, allowed=allowed)
