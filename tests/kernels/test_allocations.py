"""Kernels allocate nothing: all their scratch is the caller's workspace, which the caller holds."""

from importlib import import_module

import numpy as np
from numba import njit

from opserve_kernels.loop_cache import folders_of
from opserve_kernels.profiles import PROFILES
from opserve_kernels.registry import kernels_of

MEMORY = "NRT_"
"""Prefix of the functions of numba's runtime that allocate memory and count references to it."""


def test_no_compiled_loop_allocates_memory_or_counts_references() -> None:
    folders = folders_of(kernel for name in PROFILES for kernel in kernels_of(name).values())
    for module in folders:
        import_module(module)
    loops = [loop for folder in folders.values() for loop in folder.rglob("*.nbc")]
    assert loops
    assert [loop.name for loop in loops if MEMORY.encode() in loop.read_bytes()] == []


def test_a_loop_that_did_would_name_it() -> None:
    @njit("float64(int64)")
    def allocate(size: int) -> float:
        return float(np.ones(size).sum())

    (assembly,) = allocate.inspect_asm().values()
    assert MEMORY in assembly
