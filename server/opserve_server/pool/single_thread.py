"""Imported by the fork server before NumPy: a worker has one thread, and loads no SciPy."""

import os
import sys

os.environ.update(
    dict.fromkeys(
        ("MKL_NUM_THREADS", "NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1"
    )
)
# Where it is installed, numba imports it for linear algebra, which no kernel uses: 14 MB.
sys.modules["scipy"] = None  # type: ignore[assignment]  # an import of it fails
