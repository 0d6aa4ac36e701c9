"""Calls of the profile `reference` for a case: in float64, with operands rounded first."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from hashlib import sha256

import numpy as np
from numpy.typing import NDArray

from opserve_kernels.cases.case import Case, TensorCase, canonical
from opserve_kernels.cases.fill import Array
from opserve_kernels.cases.large_calls import projections_of
from opserve_kernels.cases.projection import Projection
from opserve_kernels.cases.registry import cases_of
from opserve_kernels.cases.suite import REVISION
from opserve_kernels.number_formats import Operands
from opserve_kernels.profiles import PROFILES, Profile
from opserve_kernels.tensor import DataType

Doubles = NDArray[np.float64]

_REFERENCE = "reference"
_FLOAT_MANTISSA_BITS = 23
_FLOAT_INFINITY = np.uint32(0x7F800000)
_GREATEST_HALF = 65504.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceCall:
    """A call of the profile `reference`.

    Attributes:
        case: Its arguments: tensors are DOUBLE and contiguous, and only the wanted outputs are
            given, where the operator has an output_mask.
        outputs: The wanted outputs.
        operands: Its inputs, in any dtype that holds them.
        sized: The call for the magnitudes of sums, on the magnitudes of the operands; None if they
            are not needed.
        projection: The projection of the wanted output that it computes; None for the output
            itself.
    """

    case: Case
    outputs: tuple[str, ...]
    operands: Mapping[str, Array]
    sized: Case | None = None
    projection: Projection | None = None


def reference_calls(
    case: Case, given: Mapping[str, Array], *, seed: int, sized: Collection[str]
) -> tuple[ReferenceCall, ...]:
    """The calls whose outputs are the expected values of a case, each output in one of them.

    Outputs that sum operands as given have a call of their own if operands are rounded. So has an
    output of a large case that is projected.

    Args:
        case: The case.
        given: Its inputs, by name.
        seed: Seed of the inputs.
        sized: Outputs whose magnitudes are needed.
    """
    plain = {name: given[name] for name in case.inputs}
    cases = cases_of(case.operator)
    roundings = cases.operands(case)
    projections = projections_of(case, seed)
    written = tuple(name for name in case.written if name not in projections)
    if not roundings:
        rounded, parts = plain, [(written, plain)]
    else:
        profile = PROFILES[case.profile]
        rounded = plain | {
            name: rounded_operand(plain[name], rounding, profile)
            for name, rounding in roundings.items()
        }
        parts = [
            (tuple(name for name in written if name not in cases.unrounded), rounded),
            (tuple(name for name in written if name in cases.unrounded), plain),
        ]
    calls = [_call(case, outputs, operands, sized) for outputs, operands in parts if outputs]
    for name, projection in projections.items():
        assert cases.projected is not None, "projections are its"
        few, summed = cases.projected.call(case, name, projection, rounded)
        calls.append(replace(_call(few, (name,), summed, sized), projection=projection))
    return tuple(calls)


def reference_key(call: ReferenceCall, *, contract: str) -> str:
    """The cache key of expected values: equal keys have equal values.

    64 hexadecimal digits follow from the call, its operands' bits and the two revisions.

    Args:
        call: A call of the profile `reference`.
        contract: Revision of the operator's contract.
    """
    case = call.case
    about = {
        "operator": case.operator,
        "arguments": case.arguments,
        "tensors": {
            name: [tensor.shape, tensor.format, tensor.dtype]
            for name, tensor in case.tensors.items()
        },
        "operands": {name: _digest(operand) for name, operand in call.operands.items()},
        "outputs": call.outputs,
        "sized": () if call.sized is None else call.sized.written,
        "contract": contract,
        "cases": REVISION,
    }
    return sha256(canonical(about).encode()).hexdigest()


def widened(operand: Array) -> Doubles:
    """An operand as the reference device reads it: float64, contiguous."""
    return np.ascontiguousarray(operand, np.float64).reshape(operand.shape)


def rounded_operand(operand: Array, rounding: Operands, profile: Profile) -> Array:
    """An operand as a device multiplies it.

    Args:
        operand: Operand in the tensor's dtype.
        rounding: Rounding of the operand.
        profile: Profile with the bits of HF32, and the result of values beyond FLOAT16's range.
    """
    match rounding:
        case Operands.HF32:
            return _to_hf32(operand, profile.hf32_mantissa_bits)
        case Operands.FLOAT16 if operand.dtype != np.float16:
            with np.errstate(over="ignore"):
                half = widened(operand).astype(np.float16)
            return half.clip(-_GREATEST_HALF, _GREATEST_HALF) if profile.saturates else half
        case _:
            return operand


def _to_hf32(operand: Array, mantissa_bits: int) -> Array:
    """To nearest, ties away from zero; infinities and NaNs stay, narrower values are exact."""
    if operand.dtype != np.float32:
        return operand
    dropped = _FLOAT_MANTISSA_BITS - mantissa_bits
    half, kept = np.uint32(1 << (dropped - 1)), np.uint32((1 << 32) - (1 << dropped))
    bits = np.ascontiguousarray(operand).view(np.uint32)
    nearest = np.where(bits & _FLOAT_INFINITY == _FLOAT_INFINITY, bits, (bits + half) & kept)
    return nearest.astype(np.uint32).view(np.float32)


def _call(
    case: Case, outputs: tuple[str, ...], operands: Mapping[str, Array], sized: Collection[str]
) -> ReferenceCall:
    call = _asking(case, outputs)
    wanted = tuple(name for name in outputs if name in sized)
    by_size = call if wanted == outputs else _asking(case, wanted) if wanted else None
    return ReferenceCall(case=call, outputs=outputs, operands=operands, sized=by_size)


def _asking(case: Case, outputs: tuple[str, ...]) -> Case:
    """The call of `reference` for some outputs, and all others that cannot be left out."""
    written = outputs if "output_mask" in case.arguments else case.written
    read = (*case.inputs, *written)
    tensors = {name: _in_double(case.tensors[name]) for name in case.tensors if name in read}
    arguments = cases_of(case.operator).reference_arguments(case, outputs)
    return replace(case, profile=_REFERENCE, tensors=tensors, arguments=arguments)


def _in_double(tensor: TensorCase) -> TensorCase:
    return replace(tensor, dtype=DataType.DOUBLE, strides=None, offset=0, storage_shape=None)


def _digest(operand: Array) -> str:
    data = np.ascontiguousarray(operand).reshape(-1).view(np.uint8).data
    return f"{operand.dtype.name} {sha256(data).hexdigest()}"
