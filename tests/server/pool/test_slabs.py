"""Slabs: sealed, zero when handed out, and never more than the capacity."""

import mmap
import os
from resource import RUSAGE_SELF, getrusage

import numpy as np
import pytest

from opserve_server.pool.slabs import PAGE_BYTES, NoMemory, Slab, SlabPool, map_slab
from server.pool.toys import open_descriptors

PAGES = 8 * PAGE_BYTES


@pytest.fixture
def pool() -> SlabPool:
    return SlabPool(capacity_bytes=4 * PAGES, slab_bytes=PAGES, unmap=id)


def test_a_slab_cannot_be_resized_through_its_descriptor() -> None:
    slab = Slab(1, PAGES)
    for size in (0, PAGES - 1, 2 * PAGES):
        with pytest.raises(PermissionError):
            os.ftruncate(slab.fd, size)
    slab.close()


def test_pages_of_slabs_up_to_four_ordinary_ones_are_allocated_at_once() -> None:
    pool = SlabPool(capacity_bytes=10 * PAGES, slab_bytes=PAGES, unmap=id)
    for minimum_bytes, allocated_bytes in ((1, PAGES), (4 * PAGES, 4 * PAGES), (4 * PAGES + 1, 0)):
        slab = pool.take(minimum_bytes)
        assert os.fstat(slab.fd).st_blocks * 512 == allocated_bytes
        assert not any(slab.memory)


@pytest.mark.parametrize(("prefault", "fewest", "most"), [(True, 0, 16), (False, 129, 2**20)])
def test_allocated_pages_are_mapped_at_once_and_others_stay_unallocated(
    prefault: bool, fewest: int, most: int
) -> None:
    slab = Slab(1, 256 * PAGE_BYTES, prefault=prefault)
    mapped = np.frombuffer(map_slab(slab.fd, slab.size_bytes), np.uint8)
    assert os.fstat(slab.fd).st_blocks * 512 == (slab.size_bytes if prefault else 0)
    before = getrusage(RUSAGE_SELF).ru_minflt
    mapped[::PAGE_BYTES] = 1
    assert fewest <= getrusage(RUSAGE_SELF).ru_minflt - before <= most
    slab.close()


def test_a_slab_is_zero_when_it_is_handed_out_again(pool: SlabPool) -> None:
    slab = pool.take(1)
    assert not any(slab.memory)
    for used_bytes in (slab.size_bytes, 100, 0):
        slab.memory[:used_bytes] = b"\xff" * used_bytes
        slab.used_bytes = used_bytes
        pool.give_back(slab)
        again = pool.take(1)
        assert again is slab
        assert not any(again.memory)


def test_only_the_used_bytes_are_cleared(pool: SlabPool) -> None:
    slab = pool.take(1)
    slab.memory[:] = b"\xff" * slab.size_bytes
    slab.used_bytes = 100
    pool.give_back(slab)
    assert bytes(pool.take(1).memory) == bytes(100) + b"\xff" * (slab.size_bytes - 100)


def test_a_slab_is_unmapped_before_it_is_closed_and_not_while_it_is_idle() -> None:
    unmapped: list[Slab] = []
    pool = SlabPool(capacity_bytes=4 * PAGES, slab_bytes=PAGES, unmap=unmapped.append)
    slab, large, shared = pool.take(1), pool.take(PAGES + 1), pool.take(1)
    shared.mapped = True
    for one in (slab, large, shared):
        pool.give_back(one)
    assert unmapped == [large, shared]
    pool.close()
    assert unmapped == [large, shared, slab]


def test_an_exposed_slab_keeps_no_byte_and_is_never_handed_out_again(pool: SlabPool) -> None:
    slab = pool.take(1)
    slab.memory[:] = b"\xff" * slab.size_bytes
    slab.mapped = True
    with os.fdopen(os.dup(slab.fd)) as kept, mmap.mmap(kept.fileno(), slab.size_bytes) as mapped:
        assert os.fstat(kept.fileno()).st_blocks > 0
        pool.give_back(slab)
        assert os.fstat(kept.fileno()).st_blocks == 0, "its pages are charged to nobody"
        assert not any(mapped[:])
        assert pool.free_bytes == 4 * PAGES
        again = pool.take(1)
        mapped[:] = b"\xff" * slab.size_bytes
        assert again is not slab
        assert not any(again.memory), "who kept the old one does not write to the new one"


def test_a_request_beyond_the_ordinary_length_gets_a_separate_slab(pool: SlabPool) -> None:
    assert pool.take(PAGES + 1).size_bytes == PAGES + PAGE_BYTES


def test_the_capacity_is_never_exceeded_and_all_of_it_can_be_used(pool: SlabPool) -> None:
    slabs = [pool.take(1) for _ in range(3)]
    slabs.append(pool.take(PAGE_BYTES))
    assert pool.free_bytes == 0
    with pytest.raises(NoMemory):
        pool.take(1)
    for slab in slabs:
        pool.give_back(slab)
    assert pool.free_bytes == 4 * PAGES
    assert pool.take(4 * PAGES).size_bytes == 4 * PAGES


def test_idle_slabs_are_released_for_one_of_another_length(pool: SlabPool) -> None:
    before = open_descriptors()
    slabs = [pool.take(1) for _ in range(4)]
    for slab in slabs:
        pool.give_back(slab)
    whole = pool.take(4 * PAGES)
    held = open_descriptors() - before
    assert held.total() == 2, "its own and its mapping's"
    pool.give_back(whole)
    assert not open_descriptors() - before


def test_the_last_slabs_are_small_but_few() -> None:
    pool = SlabPool(capacity_bytes=32 * PAGE_BYTES, slab_bytes=32 * PAGE_BYTES, unmap=id)
    pool.take(PAGE_BYTES)
    with pytest.raises(NoMemory):
        pool.take(1)
    pool = SlabPool(capacity_bytes=33 * PAGE_BYTES, slab_bytes=32 * PAGE_BYTES, unmap=id)
    pool.take(32 * PAGE_BYTES)
    assert pool.take(1).size_bytes == PAGE_BYTES
    pool = SlabPool(capacity_bytes=40 * PAGE_BYTES, slab_bytes=32 * PAGE_BYTES, unmap=id)
    pool.take(1)
    sizes = [pool.take(1).size_bytes for _ in range(4)]
    assert sizes == [2 * PAGE_BYTES] * 4


def test_a_small_slab_has_a_sixteenth_of_an_ordinary_one() -> None:
    pool = SlabPool(capacity_bytes=500 * PAGE_BYTES, slab_bytes=480 * PAGE_BYTES, unmap=id)
    pool.take(1, maximum_bytes=40 * PAGE_BYTES)
    assert pool.free_bytes == (500 - 30) * PAGE_BYTES
