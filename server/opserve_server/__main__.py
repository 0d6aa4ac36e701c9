"""`python -m opserve_server`: serves until a signal stops the process."""

import gc
from argparse import ArgumentParser


def main() -> int:
    """Serves; the result is the exit status."""
    ArgumentParser(
        prog="python -m opserve_server",
        description="Serves until SIGTERM or SIGINT. Settings are environment variables that begin "
        "with OPSERVE_; `opserve serve --help` shows options for the common ones.",
    ).parse_args()
    # Garbage collections during imports free nothing, and take a fifth of the import time.
    gc.disable()
    # Workers import this module too, and need none of the front's modules.
    from opserve_server.app import main as serve  # noqa: PLC0415

    gc.enable()
    return serve()


if __name__ == "__main__":
    raise SystemExit(main())
