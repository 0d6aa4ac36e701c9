"""The C library in this process, by ctypes."""

import ctypes
from collections.abc import Sequence
from ctypes import byref, c_char_p, c_int64, c_uint64, c_void_p
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

FLOAT, ND, NCHW = 0, 2, 0
SUCCESS = 0
_MADE = ("Tensor", "Scalar", "IntArray", "FloatArray", "BoolArray", "TensorList", "ScalarList")
_POINTERS = tuple(f"aclCreate{name}" for name in _MADE)
_TEXTS = ("aclGetRecentErrMsg", "aclrtGetSocName")


class Acl:
    """The functions of a built library. A whole number is an int: others have a type of ctypes."""

    def __init__(self, folder: Path) -> None:
        self._library = ctypes.CDLL(str(folder / "lib/libascendcl.so"))
        for name in _POINTERS:
            getattr(self._library, name).restype = c_void_p
        for name in _TEXTS:
            getattr(self._library, name).restype = c_char_p

    def __getattr__(self, name: str) -> Any:
        return getattr(self._library, name)

    def done(self, name: str, *arguments: Any) -> None:
        """Calls a function that must succeed."""
        code = getattr(self._library, name)(*arguments)
        assert code == SUCCESS, f"{name}: {code}: {self.message()}"

    def message(self) -> str:
        text = self._library.aclGetRecentErrMsg()
        return "" if text is None else text.decode()

    def malloc(self, size: int) -> int:
        address = c_void_p()
        self.done("aclrtMalloc", byref(address), c_uint64(size), 0)
        assert address.value is not None
        return address.value

    def upload(self, array: NDArray[Any]) -> int:
        address = self.malloc(array.nbytes)
        self.write(address, array)
        return address

    def write(self, address: int, array: NDArray[Any]) -> None:
        size = c_uint64(array.nbytes)
        self.done("aclrtMemcpy", c_void_p(address), size, c_void_p(array.ctypes.data), size, 1)

    def read(self, address: int, like: NDArray[Any]) -> NDArray[Any]:
        found = np.zeros_like(like)
        size = c_uint64(found.nbytes)
        self.done("aclrtMemcpy", c_void_p(found.ctypes.data), size, c_void_p(address), size, 2)
        return found

    def stream(self) -> c_void_p:
        stream = c_void_p()
        self.done("aclrtCreateStream", byref(stream))
        return stream

    def tensor(self, shape: Sequence[int], address: int | None, layout: int = ND) -> c_void_p:
        """A contiguous tensor of float32."""
        sizes = (c_int64 * len(shape))(*shape)
        rank, start, data = c_uint64(len(shape)), c_int64(0), c_void_p(address)
        return c_void_p(
            self.aclCreateTensor(sizes, rank, FLOAT, None, start, layout, sizes, rank, data)
        )

    def ints(self, *values: int) -> c_void_p:
        return c_void_p(
            self.aclCreateIntArray((c_int64 * len(values))(*values), c_uint64(len(values)))
        )


class Unfold:
    """A call of aclnnIm2col on an image (1, 3, 4) by kernels of 2x2: columns (4, 6)."""

    image = np.arange(12, dtype=np.float32).reshape(1, 3, 4)
    shape = (4, 6)

    def __init__(self, acl: Acl) -> None:
        self.acl = acl
        self.source = acl.upload(self.image)
        self.target = acl.malloc(4 * 24)
        self.executor = c_void_p()
        self.size = c_uint64()
        pairs = [acl.ints(a, a) for a in (2, 1, 0, 1)]
        self.tensors = acl.tensor((1, 3, 4), self.source), acl.tensor(self.shape, self.target)
        self.arguments: tuple[c_void_p | None, ...] = (self.tensors[0], *pairs, self.tensors[1])

    def plan(self) -> int:
        code: int = self.acl.aclnnIm2colGetWorkspaceSize(
            *self.arguments, byref(self.size), byref(self.executor)
        )
        return code

    def run(self, stream: c_void_p | None = None) -> int:
        workspace = self.acl.malloc(self.size.value) if self.size.value else None
        code: int = self.acl.aclnnIm2col(c_void_p(workspace), self.size, self.executor, stream)
        return code

    def result(self, stream: c_void_p | None = None) -> NDArray[Any]:
        """The columns of a whole call."""
        assert self.plan() == SUCCESS, self.acl.message()
        assert self.run(stream) == SUCCESS, self.acl.message()
        self.acl.done("aclrtSynchronizeStream", stream)
        return self.acl.read(self.target, np.zeros(self.shape, np.float32))

    @classmethod
    def expected(cls) -> NDArray[Any]:
        """Row (i, j) of the columns is the image from (i, j) on."""
        rows = [cls.image[0, i : i + 2, j : j + 3].ravel() for i in range(2) for j in range(2)]
        return np.stack(rows)
