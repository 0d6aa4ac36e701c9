"""PyTorch's own tests of convolutions: not in its wheel, and not in this repository."""

import os
from pathlib import Path

FILE = Path(os.environ.get("OPSERVE_PYTORCH_TESTS", os.devnull)).resolve()
"""The file test_convolution.py of PyTorch, or Ascend's copy of it."""
