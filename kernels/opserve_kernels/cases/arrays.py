"""The arrays of a case: inputs filled, gaps and outputs recognisable."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opserve_kernels.cases.case import Case, Fill, Kind, TensorCase
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


Recorded = Callable[[Case], Mapping[str, Array]]
"""Returns the recorded inputs of a case, by name: contiguous, in the tensor's dtype and shape."""
_NOTHING: Mapping[str, Array] = {}


def nothing_recorded(case: Case) -> Mapping[str, Array]:
    """No recorded inputs: those of every case are drawn."""
    del case
    return _NOTHING


def arrays_of(
    case: Case, seed: int, recorded: Mapping[str, Array] = _NOTHING
) -> Mapping[str, Placed]:
    """The tensors of a case before the call, by name.

    Element i of a storage is number i of its tensor, so an element that a view repeats is one
    number. Outputs are NaN; storage that belongs to no element is another NaN
    (opserve_kernels.cases.fill).

    Args:
        case: The call.
        seed: Seed of drawn inputs.
        recorded: Recorded inputs, by name.

    Raises:
        InvalidArgument: A tensor's dtype has no elements, or it lies in none, or an input's
            recorded elements are missing.
    """
    return {name: _placed(case, name, seed, recorded.get(name)) for name in case.tensors}


def _placed(case: Case, name: str, seed: int, recorded: Array | None) -> Placed:
    tensor = case.tensors[name]
    count = tensor.storage_elements
    if tensor.dtype.size_bytes == 0:
        raise invalid_argument(
            name,
            given=f"dtype {tensor.dtype}",
            allowed="a dtype with elements",
            status=Status.ACL_ERROR_INVALID_PARAM,
        )
    if recorded is not None:
        held = recorded.reshape(-1)
    elif tensor.fill is None:
        held = unwritten(count, tensor.dtype)
    elif tensor.fill.kind is Kind.RECORDED:
        raise invalid_argument(
            name,
            given="a fill without its recording",
            allowed="the suite that was read from the recording",
            status=Status.ACL_ERROR_INVALID_PARAM,
        )
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


def memory_of(case: Case, seed: int, recorded: Recorded = nothing_recorded) -> dict[str, Array]:
    """Flat memory of every tensor before the call, with gaps."""
    arrays = arrays_of(case, seed, recorded(case))
    return {name: placed.storage for name, placed in arrays.items()}


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
