"""The arrays of a case: inputs filled, gaps and outputs recognisable."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opserve_kernels.cases.case import Case, Fill, TensorCase
from opserve_kernels.cases.fill import Array, drawn, gaps, key_of, unwritten
from opserve_kernels.errors import invalid_argument
from opserve_kernels.formats import to_5hd, to_fractal_z
from opserve_kernels.status import Status
from opserve_kernels.tensor import NUMPY_DTYPES, DataType

_RANK_FRACTAL_Z = 4  # NC1HWC0 has 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """A tensor in memory.

    Attributes:
        storage: All elements from the start of the buffer, with gaps, in one dimension.
        elements: The view; shares memory with storage.
    """

    storage: Array
    elements: Array


def arrays_of(case: Case, seed: int) -> Mapping[str, Placed]:
    """The tensors of a case before the call, by name.

    Element i of a storage is number i of its tensor, so an element that a view repeats is one
    number. Outputs are NaN; storage that belongs to no element is another NaN
    (opserve_kernels.cases.fill).

    Raises:
        InvalidArgument: A tensor's dtype has no elements, or it lies in none.
    """
    return {name: _placed(case, name, tensor, seed) for name, tensor in case.tensors.items()}


def _placed(case: Case, name: str, tensor: TensorCase, seed: int) -> Placed:
    count = tensor.storage_elements
    if tensor.dtype.size_bytes == 0:
        raise invalid_argument(
            name,
            given=f"dtype {tensor.dtype}",
            allowed="a dtype with elements",
            status=Status.ACL_ERROR_INVALID_PARAM,
        )
    if tensor.fill is None:
        held = unwritten(count, tensor.dtype)
    else:
        held = drawn(key_of(case.id, seed, name), count, tensor.fill, tensor.dtype)
    if not (tensor.tensor().is_contiguous and tensor.tensor().element_count == count):
        member = np.zeros(count, np.bool_)
        view_of(member, tensor)[...] = True
        held = np.where(member, held, gaps(count, tensor.dtype))
    elements = view_of(held, tensor)
    if tensor.fill is not None and tensor.fill.plain is not None:
        elements[~_holds(tensor.fill, tensor.fill.plain, len(tensor.shape))] = 0
    return Placed(storage=held, elements=elements)


def memory_of(case: Case, seed: int) -> dict[str, Array]:
    """Flat memory of every tensor before the call, with gaps."""
    return {name: placed.storage for name, placed in arrays_of(case, seed).items()}


def placed_in(case: Case, memory: Mapping[str, Array]) -> dict[str, Placed]:
    """The tensors of a case in flat memory."""
    return {
        name: Placed(storage=storage, elements=view_of(storage, case.tensors[name]))
        for name, storage in memory.items()
    }


def inputs_in(case: Case, memory: Mapping[str, Array]) -> dict[str, Array]:
    """The inputs of a case in flat memory of its tensors."""
    return {name: view_of(memory[name], tensor) for name, tensor in case.inputs.items()}


def plain_inputs(case: Case, tensors: Mapping[str, Placed]) -> dict[str, Array]:
    """The inputs as in a file of arrays: each contiguous, BF16 as its bits in uint16."""
    arrays = {name: np.ascontiguousarray(tensors[name].elements) for name in case.inputs}
    return {
        name: array.view(np.uint16) if _is_bf16(case, name) else array
        for name, array in arrays.items()
    }


def typed_outputs(case: Case, arrays: Mapping[str, Array]) -> dict[str, Array]:
    """The arrays of a file that the case writes; bits of BF16 are BF16 again."""
    return {
        name: array.view(NUMPY_DTYPES[DataType.BF16])
        if _is_bf16(case, name) and array.dtype == np.uint16
        else array
        for name, array in arrays.items()
        if name in case.written
    }


def view_of(storage: Array, tensor: TensorCase) -> Array:
    """The elements of a tensor in its storage."""
    described = tensor.tensor()
    steps = [step * storage.itemsize for step in described.element_strides]
    first = min(tensor.offset, storage.size)
    return np.lib.stride_tricks.as_strided(storage[first:], tensor.shape, steps)


def _is_bf16(case: Case, name: str) -> bool:
    return case.tensors[name].dtype == DataType.BF16


def _holds(fill: Fill, plain: tuple[int, ...], rank: int) -> NDArray[np.bool_]:
    """Elements of a blocked tensor that belong to some channel."""
    ones: NDArray[Any] = np.ones(plain, np.float16)
    blocked = to_fractal_z(ones, fill.groups) if rank == _RANK_FRACTAL_Z else to_5hd(ones)
    members: NDArray[np.bool_] = blocked != 0
    return members
