"""`python -m opserve_server.warmup [MODULE...]`: compiles kernels, or finds them compiled.

Without modules, those of every operator on every profile.
"""

import sys
import time

from rich.console import Console
from rich.progress import track

from opserve_kernels.loop_cache import base_folder, folders_of, needs_of
from opserve_kernels.profiles import PROFILES
from opserve_kernels.registry import kernels_of
from opserve_kernels.status import ExitStatus
from opserve_server.pool.compiling import compiled


def main() -> int:
    """Compiles or loads with a progress line; returns the exit status."""
    console = Console()
    started = time.perf_counter()
    kernels = sys.argv[1:] or [one for name in PROFILES for one in kernels_of(name).values()]
    needs = needs_of(kernels)
    missing = sum(not folder.exists() for folder in folders_of(kernels).values())
    try:
        for _ in track(compiled(needs), "kernels", total=len(needs), console=console):
            pass
    except KeyboardInterrupt:
        console.print("interrupted; the next start compiles what is missing", soft_wrap=True)
        return ExitStatus.INTERRUPTED
    except OSError as error:
        sys.stderr.write(f"opserve: {error}; NUMBA_CACHE_DIR chooses another folder\n")
        return ExitStatus.FAILED
    seconds = time.perf_counter() - started
    console.print(f"{missing} of {len(needs)} modules compiled in {seconds:.1f} s")
    console.print(f"kept in {base_folder()}", soft_wrap=True)
    return ExitStatus.DONE


if __name__ == "__main__":
    raise SystemExit(main())
