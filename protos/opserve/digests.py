# ruff: noqa: INP001 (opserve is a namespace package, as protoc makes it)
"""Digest of an array, the same on both sides: see docs/reference/conformance-service.md."""

from hashlib import sha256
from typing import Any

import numpy as np
from numpy.typing import NDArray


def digest_of(array: NDArray[Any]) -> str:
    """SHA-256 of an array's dtype, shape and elements: 64 hexadecimal digits."""
    head = " ".join([array.dtype.name, *map(str, array.shape)])
    found = sha256(f"{head}\n".encode())
    found.update(np.ascontiguousarray(array, array.dtype.newbyteorder("<")).data)
    return found.hexdigest()
