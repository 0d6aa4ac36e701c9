"""`python -m opserve_server`: serves until a signal stops the process."""

import gc
import os
import signal
import sys
from argparse import ArgumentParser
from types import FrameType

from opserve_kernels.status import ExitStatus


def main() -> int:
    """Serves; the result is the exit status."""
    # Until the service handles signals there is nothing to stop, and no traceback to show.
    signal.signal(signal.SIGINT, _end)
    ArgumentParser(
        prog="python -m opserve_server",
        description="Serves until SIGTERM or SIGINT. Settings are environment variables that begin "
        "with OPSERVE_; `opserve serve --help` shows options for the common ones.",
    ).parse_args()
    # Garbage collections during imports free nothing, and take a fifth of the import time.
    gc.disable()
    # Workers import this module too, and need none of the front's modules.
    try:
        from opserve_server.early_start import begin_loading_kernels  # noqa: PLC0415

        begin_loading_kernels()
        from opserve_server.app import main as serve  # noqa: PLC0415
    except ModuleNotFoundError as error:
        if str(error.name).startswith("opserve"):
            raise
        sys.stderr.write(
            f"opserve: the service needs {error.name}, which this environment lacks: "
            "pip install 'opserve[server]'\n"
        )
        return ExitStatus.UNUSABLE
    gc.enable()
    return serve()


def _end(_: int, __: FrameType | None) -> None:
    os._exit(ExitStatus.INTERRUPTED)


if __name__ == "__main__":
    raise SystemExit(main())
