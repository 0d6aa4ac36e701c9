"""`python -m opserve_server.warmup`: compiles every kernel into its folder, or finds it there."""

import sys
import time
from importlib import import_module

from rich.console import Console
from rich.progress import track

from opserve_kernels.loop_cache import base_folder, folders_of
from opserve_server.pool.device import KERNELS


def main() -> int:
    """Compiles or loads with a progress line; the exit status."""
    console = Console()
    started = time.perf_counter()
    folders = folders_of(KERNELS.values())
    compiled = sum(not folder.exists() for folder in folders.values())
    try:
        for module in track(folders, description="kernels", console=console):
            import_module(module)
    except OSError as error:
        sys.stderr.write(f"opserve: {error}; NUMBA_CACHE_DIR chooses another folder\n")
        return 1
    seconds = time.perf_counter() - started
    console.print(f"{compiled} of {len(folders)} modules compiled in {seconds:.1f} s")
    console.print(f"kept in {base_folder()}", soft_wrap=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
