"""Values on their way to another process and back: large arrays lie in memory that both see.

Pickled with the rest, one call of the interpreter would copy them all, and the front's loop stood
still for as long.
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
"""Of an array from which on it lies apart; smaller ones, and those of BF16, which is no type of
NumPy's own, are copied: 8 MB, the most of BF16 unless a limit is raised, in some milliseconds."""


@dataclass(frozen=True, slots=True)
class Payload:
    """A value.

    Attributes:
        form: Pickled, without the bytes of large arrays.
        ends: Where each of these ends in the memory besides; they begin at whole pages.
    """

    form: bytes
    ends: tuple[int, ...]


@contextmanager
def shared_memory() -> Generator[Path]:
    """Where other processes of the service find memory that grows, until the block ends."""
    file = os.memfd_create("opserve-payload")
    try:
        yield Path(f"/proc/{os.getpid()}/fd/{file}")
    finally:
        os.close(file)


def packed(value: object, memory: Path) -> Payload:
    """A value, of which large arrays are written to memory."""
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
    """The value; its arrays keep the memory that they lie in."""
    parts: list[memoryview] = []
    if payload.ends:
        with memory.open("rb") as file:
            data = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY))
        firsts = (0, *map(_next_page, payload.ends))
        parts = [data[first:end] for first, end in zip(firsts, payload.ends, strict=False)]
    return pickle.loads(payload.form, buffers=parts)  # noqa: S301  # a process of the service's own


def executed(task: Payload, request_file: Path, answer_file: Path) -> Payload:
    """What a function without arguments, in a payload, comes to."""
    function: Callable[[], object] = unpacked(task, request_file)
    return packed(function(), answer_file)


def _next_page(place: int) -> int:
    return -(-place // mmap.PAGESIZE) * mmap.PAGESIZE
