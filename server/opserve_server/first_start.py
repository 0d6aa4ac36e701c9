"""First start: compiles the kernels of a service in another process, and logs the progress."""

import asyncio
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Collection, Sequence
from functools import partial
from pathlib import Path

from opserve_kernels.loop_cache import are_compiled, folders_of
from opserve_server.serving import StartFailed

_INTERVAL_S = 5.0  # between two lines of the log
_TIMEOUT_S = 540.0
"""Half a minute's work of two cores, with time for other load."""
_QUIET = "ignore:resource_tracker:UserWarning"
"""Option of Python: semaphores of a killed compilation are freed without a warning."""

log = logging.getLogger(__name__)


async def compile_missing(kernels: Sequence[str]) -> None:
    """Compiles modules that were never compiled.

    Raises:
        StartFailed: They cannot be compiled, or not in time.
    """
    if are_compiled(kernels):
        return
    folders = folders_of(kernels).values()
    command = [sys.executable, "-P", "-W", _QUIET, "-m", "opserve_server.warmup", *kernels]
    # Not in this process: gRPC does not support its fork. A line on standard output means ready. An
    # interrupt from the terminal is for this process, which ends the other one.
    program = await asyncio.to_thread(
        partial(subprocess.Popen, command, stdout=subprocess.DEVNULL, process_group=0)
    )
    telling = asyncio.create_task(_tell_of_compiling(folders))
    try:
        status = await asyncio.to_thread(program.wait, _TIMEOUT_S)
    except subprocess.TimeoutExpired:
        raise StartFailed(f"kernels: not compiled within {_TIMEOUT_S:g} s") from None
    finally:
        telling.cancel()
        if program.poll() is None:
            # All at once: a process that it has begun would report that it cannot read from it. One
            # ignores this signal: the resource tracker, which then frees the semaphores.
            os.killpg(program.pid, signal.SIGTERM)
            program.kill()
        program.wait()
    if status:
        raise StartFailed("kernels: they cannot be compiled; see the log")


async def _tell_of_compiling(folders: Collection[Path]) -> None:
    """Logs the progress of the compilation until it is complete."""
    while (begun := sum(folder.exists() for folder in folders)) < len(folders):
        log.info("compiling kernels, once: %d of %d modules", begun, len(folders))
        await asyncio.sleep(_INTERVAL_S)
