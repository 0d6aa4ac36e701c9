"""The interpreter of an environment with Triton's stock client, whose protobuf is older."""

import os
from pathlib import Path

PYTHON = Path(os.environ.get("OPSERVE_TRITON_PYTHON", os.devnull))
"""The interpreter; `make test-triton` sets it."""


def is_there() -> bool:
    return PYTHON.is_file()
