"""Imported by the fork server before NumPy: a worker has one thread, BLAS and OpenMP start none."""

import os

os.environ.update(
    dict.fromkeys(
        ("MKL_NUM_THREADS", "NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1"
    )
)
