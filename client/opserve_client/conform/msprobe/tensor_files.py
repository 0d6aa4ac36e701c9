"""Files of recorded tensors: bytes are read when a case runs, never as a pickle."""

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import numpy as np

from opserve_client.conform.msprobe.torch_files import read_torch_file
from opserve_client.conform.targets.target import InfrastructureError
from opserve_kernels.cases.case import Case
from opserve_kernels.cases.fill import Array
from opserve_kernels.cases.readers.read import Inexpressible
from opserve_kernels.tensor import NUMPY_DTYPES, DataType

FILE_BYTES_LIMIT = 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorFile:
    """A recorded tensor.

    Attributes:
        path: The file: NAME.npy, or NAME.pt of torch.save.
        dtype: Dtype of the tensor, as the dump states it.
        shape: Shape of the tensor, likewise.
    """

    path: Path
    dtype: DataType
    shape: tuple[int, ...]

    def read(self) -> Array:
        """Returns the tensor, contiguous.

        Raises:
            Inexpressible: The file is missing, too large, or has another tensor.
            OSError: The file cannot be read.
        """
        name = self.path.name
        if not self.path.is_file():
            raise Inexpressible(f"{name}: the file is missing")
        if self.path.stat().st_size > FILE_BYTES_LIMIT:
            raise Inexpressible(f"{name}: the file is larger than {FILE_BYTES_LIMIT} bytes")
        try:
            found = self._read()
        except Inexpressible as reason:
            raise Inexpressible(f"{name}: {reason}") from reason
        if self.dtype == DataType.BF16 and found.dtype == np.float32:  # .npy has no BF16
            found = found.astype(NUMPY_DTYPES[DataType.BF16])
        wanted = NUMPY_DTYPES[self.dtype]
        if (found.dtype, found.shape) != (wanted, self.shape):
            given = f"{found.dtype.name} {list(found.shape)}"
            stated = f"{wanted.name} {list(self.shape)}"
            raise Inexpressible(f"{name}: the file has {given}, dump.json states {stated}")
        return found

    def _read(self) -> Array:
        match self.path.suffix:
            case ".pt":
                return read_torch_file(self.path, bytes_limit=FILE_BYTES_LIMIT)
            case ".npy":
                try:  # mapped: a header cannot claim more than the file has
                    mapped: Array = np.lib.format.open_memmap(self.path, mode="r")
                except ValueError as error:
                    raise Inexpressible("the file is no .npy file of numbers") from error
                return np.array(mapped)
            case suffix:
                raise Inexpressible(f"the file is {suffix or 'without suffix'}, allowed .npy, .pt")


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedFiles:
    """The recorded inputs of cases; another process can read them.

    Attributes:
        files: By case and input.
    """

    files: Mapping[str, Mapping[str, TensorFile]]

    def __call__(self, case: Case) -> Mapping[str, Array]:
        """Returns the recorded inputs of a case.

        Raises:
            InfrastructureError: A file is not what it was when the suite was read.
        """
        found: dict[str, Array] = {}
        for name, file in self.files.get(case.id, {}).items():
            fill = case.tensors[name].fill
            try:
                found[name] = file.read()
            except (Inexpressible, OSError) as error:
                raise InfrastructureError(f"{file.path}: {error}") from error
            if fill is None or digest_of(found[name]) != fill.digest:
                raise InfrastructureError(f"{file.path}: the file changed after the start")
        return found


def digest_of(array: Array) -> str:
    """Returns the digest of a contiguous array's bytes."""
    return f"sha256:{sha256(array.reshape(-1).view(np.uint8).data).hexdigest()}"
