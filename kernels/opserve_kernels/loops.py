"""How every loop is compiled: one decorator, so that no kernel has options of its own.

Loops are compiled for the signature they name when their module is imported (so here, unlike elsewhere, a helper
stands above its caller), and kept in a cache. Numba looks
only at the file of a function when it decides whether its cache is fresh, not at the files it calls into; the
cache therefore lies in a folder named after the contents of this whole package.
"""

from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import ParamSpec, TypeVar

from numba import config, njit  # pyright: ignore[reportMissingTypeStubs]

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


def compiled(
    signature: str,
) -> Callable[[Callable[Parameters, Result]], Callable[Parameters, Result]]:
    """Compiles a loop for one signature: no GIL, float arithmetic as written, one thread."""
    return njit(  # type: ignore[no-any-return]
        signature, nogil=True, cache=True, fastmath=False, parallel=False, error_model="numpy"
    )


def _cache_folder() -> str:
    package = Path(__file__).parent
    contents = sha256()
    for source in sorted(package.rglob("*.py")):
        contents.update(source.read_bytes())
    base = Path(config.CACHE_DIR) if config.CACHE_DIR else package / "__pycache__"
    return str(base / f"loops-{contents.hexdigest()[:16]}")


config.CACHE_DIR = _cache_folder()
