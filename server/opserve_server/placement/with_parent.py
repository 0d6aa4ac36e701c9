"""`python -m opserve_server.placement.with_parent PID`: a service that ends with process PID."""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1  # of prctl(2); the kernel keeps it over execv


def main() -> None:
    """Becomes the service, unless the parent has ended already."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() == int(sys.argv[1]):
        os.execv(sys.executable, [sys.executable, "-P", "-m", "opserve_server"])  # noqa: S606  # itself


if __name__ == "__main__":
    main()
