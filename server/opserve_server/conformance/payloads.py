"""Shared-memory payloads: values for another process, with large arrays in common memory.

Pickled with the rest, all arrays would be copied in one call of the interpreter, which would block
the front's event loop for as long.
"""

import mmap
import os
import pickle
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

OUT_OF_BAND_BYTES = 64 * 1024
"""Size from which an array is passed out of band, bytes; smaller ones, and those of BF16, which
NumPy does not define itself, are copied: 8 MB, the most of BF16 at the default limits, in a few
milliseconds."""


@dataclass(frozen=True, slots=True)
class Payload:
    """A value.

    Attributes:
        form: The pickle, without the bytes of large arrays.
        ends: End of each large array in the memory file; each begins at a whole page.
    """

    form: bytes
    ends: tuple[int, ...]


@contextmanager
def shared_memory() -> Generator[Path]:
    """A memory file that other processes of the service can open, until the block ends."""
    file = os.memfd_create("opserve-payload")
    try:
        yield Path(f"/proc/{os.getpid()}/fd/{file}")
    finally:
        os.close(file)


def packed(value: object, memory: Path) -> Payload:
    """Packs a value; writes large arrays to the memory file."""
    out_of_band: list[memoryview] = []

    def is_small(buffer: pickle.PickleBuffer) -> bool:
        data = buffer.raw()
        if data.nbytes >= OUT_OF_BAND_BYTES:
            out_of_band.append(data)
        return data.nbytes < OUT_OF_BAND_BYTES

    form = pickle.dumps(value, protocol=5, buffer_callback=is_small)
    ends: list[int] = []
    with memory.open("wb") as file:
        for data in out_of_band:
            file.seek(_next_page(file.tell()))
            file.write(data)
            ends.append(file.tell())
    return Payload(form, tuple(ends))


def unpacked(payload: Payload, memory: Path) -> Any:  # noqa: ANN401  # what was packed
    """Unpacks a value; its arrays keep their memory alive."""
    parts: list[memoryview] = []
    if payload.ends:
        with memory.open("rb") as file:
            data = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY))
        firsts = (0, *map(_next_page, payload.ends))
        parts = [data[first:end] for first, end in zip(firsts, payload.ends, strict=False)]
    return pickle.loads(payload.form, buffers=parts)  # noqa: S301  # a process of the service's own


def executed(task: Payload, request_file: Path, answer_file: Path) -> Payload:
    """Calls a packed function without arguments, and packs its result."""
    function: Callable[[], object] = unpacked(task, request_file)
    return packed(function(), answer_file)


def _next_page(place: int) -> int:
    return -(-place // mmap.PAGESIZE) * mmap.PAGESIZE
