"""A kernel in stages, each of which a fault replaces: refuse, read, sum, round, write."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import cast

import numpy as np

from conformance.faulty.correct import Array, Call, sums_of
from conformance.faulty.forms import call_of
from kernels.cases.runs import plan_of
from kernels.oracles.expectation import Doubles
from kernels.oracles.rounding import round_to, round_to_half, round_to_hf32, saturate
from opserve_kernels.cases.arrays import Placed
from opserve_kernels.cases.case import Case
from opserve_kernels.cube_math import promoted
from opserve_kernels.errors import InvalidArgument
from opserve_kernels.status import AnyStatus
from opserve_kernels.tensor import DataType

_INCOMING = {"convolution_backward": "grad_output", "conv_tbc_backward": "self"}
_BLOCKS_INPUT, _COPY = "conv2d_backprop_input", "im2col"
_FORWARD = {"convolution": "input", "conv_depthwise2d": "self", "conv_tbc": "self"}
Sums = Mapping[str, Array]
Memory = Mapping[str, Placed]
_SATURATING = ("ascend910", "ascend310p", "ascend310b", "ascend310")
_WITHOUT_FLOAT = ("ascend910", "ascend310p")
_EXACT, _EDGE = "reference", "ascend310b"
_RANK_3D = 5
_HF32_TYPES = (1, 3)
_USE_FP16 = 2
_FLOAT, _HALF = DataType.FLOAT, DataType.FLOAT16


def refused(case: Case) -> AnyStatus | None:
    """The code of the contract."""
    try:
        plan_of(case)
    except InvalidArgument as refusal:
        return refusal.status
    return None


def read(memory: Placed) -> Array:
    """The elements of a tensor."""
    return memory.elements


def nearest(values: Doubles, dtype: DataType) -> Doubles:
    """To a dtype."""
    return round_to(values, dtype)


def to_half(_: str, values: Doubles) -> Doubles:
    """To FLOAT16, whichever operand it is."""
    return round_to_half(values)


def passed(case: Case, name: str) -> list[DataType]:
    """The dtypes that a sum passes to that of an output."""
    if name in {"res_tensor", "dw_data"} or case.operator == _COPY:
        return []
    if case.operator in _FORWARD:
        return [_computed(case)]
    if name in {"grad_bias", "out"}:
        return [case.tensors[_INCOMING.get(case.operator, "grad_output")].dtype]
    computed = _computed(case)
    if name == "grad_input":
        return [computed]
    is_wide = case.tensors[name].dtype == _FLOAT
    grouped = case.arguments.get("groups", 1) != 1
    return [_HALF] if grouped and is_wide and computed != _FLOAT else []


def write(memory: Placed, result: Array) -> None:
    """Puts a result where it belongs."""
    memory.elements[...] = result


def leave(_case: Case, _memory: Memory, _turn: int) -> None:
    """Does nothing afterwards."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernel:
    """The stages of a kernel; the defaults make a right one.

    Attributes:
        refuse: The code that a call is refused with.
        read: A tensor's elements.
        hf32: An operand's rounding to HF32.
        half: The rounding to FLOAT16 of an operand of another dtype, whose name it receives.
        change: The call before it is computed.
        finish: The gradients' sums before they are laid out and rounded.
        passed: The dtypes that sums pass to that of an output.
        nearest: Rounding to a dtype.
        saturate: Results beyond FLOAT16's range, where the profile saturates.
        write: How a result is written.
        leave: What is done to memory afterwards; it receives how often the case ran before.
    """

    refuse: Callable[[Case], AnyStatus | None] = refused
    read: Callable[[Placed], Array] = read
    hf32: Callable[[Doubles], Doubles] = round_to_hf32
    half: Callable[[str, Doubles], Doubles] = to_half
    change: Callable[[Call], Call] = lambda call: call
    finish: Callable[[Call, Sums], Sums] = lambda _, sums: sums
    passed: Callable[[Case, str], list[DataType]] = passed
    nearest: Callable[[Doubles, DataType], Doubles] = nearest
    saturate: Callable[[Doubles], Doubles] = saturate
    write: Callable[[Placed, Array], None] = write
    leave: Callable[[Case, Memory, int], None] = leave


def run(kernel: Kernel, case: Case, memory: Memory, turn: int) -> None:
    """Writes the outputs of a case; `turn` counts earlier runs."""
    with np.errstate(all="ignore"):
        call = kernel.change(call_of(case, _operands(kernel, case, memory)))
        for gradient, sums in kernel.finish(call, sums_of(call)).items():
            name = call.gradients[gradient]
            elements = memory[name].elements
            laid = call.laid(sums)
            if gradient in call.order:
                laid = laid.transpose(call.order[gradient])
            laid = laid.reshape(elements.shape)
            result = rounded(kernel, case, name, laid.astype(np.float64))
            kernel.write(memory[name], result.astype(elements.dtype))
        kernel.leave(case, memory, turn)


def _operands(kernel: Kernel, case: Case, memory: Memory) -> dict[str, Array]:
    accumulator = np.float64 if case.profile == _EXACT else np.float32
    given = {name: kernel.read(memory[name]).astype(np.float64) for name in case.inputs}
    found = {name: _operand(kernel, case, name, array) for name, array in given.items()}
    if case.operator in _INCOMING:
        found["bias"] = given[_INCOMING[case.operator]]
    return {name: array.astype(accumulator) for name, array in found.items()}


def _operand(kernel: Kernel, case: Case, name: str, values: Doubles) -> Doubles:
    if case.operator not in {*_INCOMING, *_FORWARD}:
        return values
    if name == "bias" and case.operator in _FORWARD:
        is_kept = case.profile == _EXACT or _computed(case) != _HALF or _keeps_bias(case)
        return values if is_kept else _to_half(kernel, case, name, values)
    if _computed(case) == _HALF and case.tensors[name].dtype != _HALF:
        return _to_half(kernel, case, name, values)
    is_hf32 = case.arguments["cube_math_type"] in _HF32_TYPES
    if is_hf32 and case.tensors[name].dtype == _FLOAT and _promoted(case) == _FLOAT:
        if case.profile == _EDGE:
            return round_to_hf32(values, mantissa_bits=10)
        return kernel.hf32(values)
    return values


def _to_half(kernel: Kernel, case: Case, name: str, values: Doubles) -> Doubles:
    return kernel.half(name, saturate(values) if case.profile in _SATURATING else values)


def _keeps_bias(case: Case) -> bool:
    """Whether the bias is added in FLOAT though products are computed in FLOAT16."""
    tensors, given = case.tensors, case.arguments
    if case.operator != "convolution":
        return False
    ones = (tensors["weight"].shape[2:], given["stride"], given["dilation"])
    is_pointwise = (
        len(tensors["input"].shape) == _RANK_3D
        and tensors["input"].shape[2:] != tensors["weight"].shape[2:]
        and all(set(cast("tuple[int, ...]", row)) == {1} for row in ones)
        and not any(cast("tuple[int, ...]", given["padding"]))
        and given["groups"] == 1
    )
    return case.profile == "ascend910b" and bool(given["transposed"] or is_pointwise)


def rounded(kernel: Kernel, case: Case, name: str, sums: Doubles) -> Doubles:
    """Through the dtypes that a sum passes to its own."""
    saturates = case.profile in _SATURATING or case.operator == _BLOCKS_INPUT
    if case.operator == _COPY:  # a cast saturates, a copy does not
        saturates = saturates and case.tensors["self"].dtype != case.tensors[name].dtype
    formats = [case.tensors[name].dtype]
    if case.profile != _EXACT:
        formats = [*kernel.passed(case, name), *formats]
    for dtype in formats:
        sums = kernel.nearest(sums, dtype)
        if saturates and dtype == _HALF:
            sums = kernel.saturate(sums)
    return sums


def _promoted(case: Case) -> DataType:
    if case.operator in _FORWARD:
        names: tuple[str, ...] = (_FORWARD[case.operator], "weight")
    else:
        names = (_INCOMING[case.operator], "input", "weight")
    return promoted(*(case.tensors[name].dtype for name in names))


def _computed(case: Case) -> DataType:
    dtype = _promoted(case)
    without_float = case.profile in _WITHOUT_FLOAT and dtype == _FLOAT
    is_half = case.arguments["cube_math_type"] == _USE_FP16 or without_float
    return _HALF if is_half else dtype
