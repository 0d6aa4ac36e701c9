"""How every loop is compiled: one decorator, so that no kernel has options of its own.

A loop is compiled for the signature it names when its module is imported (so here, unlike
elsewhere, helpers stand above their callers) and kept in a cache. Numba decides by the file of a
function whether its cache is fresh, not by the files that it calls into; the cache therefore lies
in a folder named after the contents of this whole package, and what its kernels are made for.
"""

import os
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import ParamSpec, TypeVar

from numba import config, njit  # pyright: ignore[reportMissingTypeStubs]

from opserve_kernels.algorithms.host import HOST

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


def compiled(
    signature: str,
) -> Callable[[Callable[Parameters, Result]], Callable[Parameters, Result]]:
    """Compiles a loop for one signature: no GIL, float arithmetic as written, one thread."""
    return njit(
        signature, nogil=True, cache=True, fastmath=False, parallel=False, error_model="numpy"
    )


def _cache_folder() -> str:
    package = Path(__file__).parent
    contents = sha256(str(HOST).encode())
    for source in sorted(package.rglob("*.py")):
        contents.update(source.read_bytes())
    base = os.environ.get("NUMBA_CACHE_DIR") or package / "__pycache__"
    return str(Path(base) / f"loops-{contents.hexdigest()[:16]}")


# Numba makes its settings at run time, where type checkers cannot see them.
config.CACHE_DIR = _cache_folder()  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]
