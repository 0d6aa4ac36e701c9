"""NVIDIA's load generator for the Open Inference Protocol, which no environment here brings."""

import os
from pathlib import Path

PROGRAM = Path(os.environ.get("OPSERVE_PERF_ANALYZER", os.devnull))
"""Path of perf_analyzer."""


def is_there() -> bool:
    return PROGRAM.is_file()
