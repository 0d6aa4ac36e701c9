"""Wrong kernels: the right one with a stage replaced."""

from collections.abc import Mapping
from dataclasses import replace
from hashlib import sha256

import ml_dtypes
import numpy as np

from conformance.faulty.correct import Array, Call
from conformance.faulty.fault import Fault, changed, incoming, without_bias
from conformance.faulty.forms import blocks_laid, lanes_swapped, rows_laid, superblocks_of
from conformance.faulty.forward_faults import FORWARD_FAULTS
from conformance.faulty.kernel import Kernel, Memory, Sums, nearest, refused, write
from kernels.oracles.expectation import Doubles
from kernels.oracles.rounding import round_to_half
from kernels.oracles.superblocks import BLOCK
from opserve_kernels.cases.arrays import Placed
from opserve_kernels.cases.case import Case
from opserve_kernels.cases.fill import bits_of
from opserve_kernels.profiles import PROFILES
from opserve_kernels.status import AnyStatus, Status
from opserve_kernels.tensor import DataType

_CHANNEL_BLOCK = 4
_ON_BLOCKS = ("conv2d_backprop_input", "conv2d_backprop_filter")
_COLUMN_TAPS = (2, 3)
_TBC_IMAGES = {"conv_tbc_backward": ("grad_output", "input"), "conv_tbc": ("grad_output",)}
_HALVES = (DataType.FLOAT16, DataType.BF16)
_RACES_ONE_RUN_OF = 4


def _flipped(weight: Array) -> Array:
    return np.flip(weight, tuple(range(2, weight.ndim)))


def _flip(call: Call) -> Call:
    if "weight" in call.operands:
        return changed(call, weight=_flipped(call.operands["weight"]))
    if "columns" not in call.operands:
        return call
    return changed(call, columns=np.flip(call.operands["columns"], _COLUMN_TAPS))


def _flip_back(_: Call, sums: Sums) -> Sums:
    if "unfold" in sums:
        return {"unfold": np.flip(sums["unfold"], _COLUMN_TAPS)}
    return {**sums, **{name: _flipped(sums[name]) for name in sums if name == "weight"}}


def _without_group_offset(call: Call) -> Call:
    """Every group reads the weight and the large image of the first."""
    if call.groups == 1:
        return call
    large = "grad_output" if call.transposed else "input"
    image, weight = call.operands[large], call.operands["weight"]
    channels, rows = image.shape[1] // call.groups, weight.shape[0] // call.groups
    first = np.concatenate([image[:, :channels]] * call.groups, axis=1)
    return changed(call, weight=np.concatenate([weight[:rows]] * call.groups), **{large: first})


def _without_output_padding(call: Call) -> Call:
    """Values in the added positions are not read."""
    if not any(call.output_padding):
        return call
    image = call.operands["grad_output"].copy()
    for axis, extra in enumerate(call.output_padding, 2):
        np.moveaxis(image, axis, 0)[image.shape[axis] - extra :] = 0
    return changed(call, grad_output=image, bias=image)


def _without_batch_tail(call: Call) -> Call:
    """The last entry is not read, unless it is the only one."""
    name = incoming(call)
    image = call.operands[name].copy()
    image[max(1, image.shape[0] - 1) :] = 0
    return changed(call, **{name: image})


def _without_channel_tail(call: Call) -> Call:
    """Channels beyond whole blocks are not read."""
    name = incoming(call)
    block = BLOCK if call.case.operator in _ON_BLOCKS else _CHANNEL_BLOCK
    image = call.operands[name].copy()
    image[:, call.channels // block * block :] = 0
    return changed(call, **{name: image})


def _first_of_superblocks(call: Call) -> Call:
    """Other groups of a superblock are not read."""
    if call.case.operator not in _ON_BLOCKS:
        return call
    (_, outputs, *_), groups, _ = superblocks_of(call.case)
    image = call.operands["grad_output"].copy()
    channels: int = image.shape[1]
    is_first = np.arange(channels) % outputs < call.channels // groups
    image[:, ~is_first] = 0
    return changed(call, grad_output=image)


def _swap_lanes(call: Call) -> Call:
    if call.case.operator not in _ON_BLOCKS:
        return call
    return changed(call, weight=lanes_swapped(call.operands["weight"]))


def _swap_lanes_back(call: Call, sums: Sums) -> Sums:
    is_laid = call.case.operator in _ON_BLOCKS and "weight" in sums
    return {"weight": lanes_swapped(sums["weight"])} if is_laid else sums


def _taps_first(columns: Array) -> Array:
    return np.moveaxis(columns, 1, 3)


def _other_row_order(call: Call) -> Call:
    """Taps before channels where they belong behind, and vice versa."""
    if call.case.operator == "deconv_grad_filter":
        is_first = call.case.arguments.get("row_order") == "kh_kw_oc"
        order = "oc_kh_kw" if is_first else "kh_kw_oc"
        return replace(call, laid=rows_laid(call.case, order))
    if "pixels" in call.operands:
        return replace(call, laid=_taps_first)
    if "columns" not in call.operands:
        return call
    columns = call.operands["columns"]
    batch, channels, high, wide, *places = columns.shape
    rows = columns.reshape(batch, high, wide, channels, *places)
    return changed(call, columns=np.moveaxis(rows, 3, 1))


def _other_raw(call: Call) -> Call:
    if call.case.operator != "conv2d_backprop_filter":
        return call
    is_raw = bool(call.case.arguments.get("raw"))
    return replace(call, laid=blocks_laid(call.case, raw=not is_raw))


def _without_masked_cores(call: Call, sums: Sums) -> Sums:
    """Output channels go to cores in turn; those of others stay NaN, as they were."""
    mask = call.case.arguments.get("core_mask")
    if not isinstance(mask, int):
        return sums
    channels: int = sums["weight"].shape[1]
    cores = np.arange(channels) % PROFILES[call.case.profile].cores
    is_there = (mask >> cores) & 1 == 1
    return {"weight": np.where(is_there[:, None, None], sums["weight"], np.nan)}


def _other_param_order(call: Call) -> Call:
    if "param" not in call.case.arguments:
        return call
    return replace(call, padding=call.dilation, dilation=call.padding)


def _in_halves(total: Array) -> Array:
    return total.astype(np.float16).astype(total.dtype)


def _with_half_sums(call: Call) -> Call:
    """Sums of FLOAT16 operands are kept in FLOAT16."""
    is_half = next(iter(call.case.inputs.values())).dtype == DataType.FLOAT16
    return replace(call, kept=_in_halves) if is_half else call


def _with_brain_operands(call: Call) -> Call:
    rounded = {
        name: array.astype(ml_dtypes.bfloat16).astype(array.dtype)
        for name, array in call.operands.items()
    }
    return replace(call, operands=rounded)


def _truncated_hf32(values: Doubles) -> Doubles:
    bits = values.astype(np.float32).view(np.uint32) & np.uint32(0xFFFFF000)
    return bits.view(np.float32).astype(np.float64)


def _rounded_twice(values: Doubles, dtype: DataType) -> Doubles:
    """To one digit more than a 16-bit dtype has, then to it."""
    if dtype in _HALVES:
        digits = {DataType.FLOAT16: 12, DataType.BF16: 9}[dtype]
        fraction, exponent = np.frexp(values)
        values = np.ldexp(np.rint(np.ldexp(fraction, digits)), exponent - digits)
    return nearest(values, dtype)


def _flushed(values: Doubles, dtype: DataType) -> Doubles:
    """Subnormal results are 0."""
    least = {DataType.FLOAT16: 2.0**-14}.get(dtype, 2.0**-126)
    rounded = nearest(values, dtype)
    return np.where(np.abs(rounded) < least, 0.0, rounded)


def _through_half(values: Doubles, dtype: DataType) -> Doubles:
    return nearest(round_to_half(values), dtype)


def _without_nan(_: Call, sums: Sums) -> Sums:
    """As a maximum of a NaN and a number is the number."""
    return {name: np.where(np.isnan(array), 0, array) for name, array in sums.items()}


def _bias_over_wrong_axes(call: Call, sums: Sums) -> Sums:
    """As if channels were the last dimension."""
    if "bias" not in sums:
        return sums
    bias = call.operands["bias"]
    return {**sums, "bias": bias.reshape(-1, bias.shape[1]).sum(axis=0)}


def _ones_for_nothing(call: Call, sums: Sums) -> Sums:
    """Without products the bias is the number of positions, as the vendor's source has it."""
    if "bias" not in sums or (call.operands["input"].size and call.operands["weight"].size):
        return sums
    incoming = call.operands["grad_output"]
    positions = incoming.shape[0] * int(np.prod(incoming.shape[2:]))
    return {**sums, "bias": np.full_like(sums["bias"], positions)}


def _entries_as_times(call: Call) -> Call:
    """Images (T, B, C) are read as (B, T, C)."""
    names = _TBC_IMAGES.get(call.case.operator, ())
    read: dict[str, Array] = {}
    for name in names:
        image = call.operands[name]
        batch, channels, times = image.shape
        memory = image.transpose(2, 0, 1).reshape(batch, times, channels)
        read[name] = memory.swapaxes(1, 2)
    return changed(call, **read)


def _bias_of_another_channel(call: Call) -> Call:
    if "added" not in call.operands:
        return call
    return changed(call, added=np.roll(call.operands["added"], 1))


def _bias_times_groups(call: Call) -> Call:
    if "added" not in call.operands:
        return call
    added = call.operands["added"]
    return changed(call, added=np.tile(added[: added.size // call.groups], call.groups))


def _added_padding(call: Call) -> Call:
    return replace(call, padding=tuple(side + 1 for side in call.padding))


def _write_all_but_last(memory: Placed, result: Array) -> None:
    """The last row stays as it was."""
    if result.ndim:
        memory.elements[..., :-1] = result[..., :-1]


def _write_over_gaps(memory: Placed, result: Array) -> None:
    memory.storage[...] = 0
    write(memory, result)


def _add_to_output(memory: Placed, result: Array) -> None:
    memory.elements[...] += result


def _read_contiguously(memory: Placed) -> Array:
    """As if the elements were contiguous."""
    if memory.storage.size < memory.elements.size:
        return memory.elements
    return memory.storage[: memory.elements.size].reshape(memory.elements.shape)


def _race(case: Case, memory: Memory, turn: int) -> None:
    """In one run of four, an element's last bit is another."""
    digest = sha256(f"{case.id} {turn}".encode()).digest()
    if digest[0] % _RACES_ONE_RUN_OF:
        return
    for name in case.written[:1]:
        elements = memory[name].elements
        if elements.size:
            place = np.unravel_index(digest[1] % elements.size, elements.shape)
            one = elements[place].reshape(1)
            elements[place] = (bits_of(one) ^ 1).view(one.dtype)[0]


def _overwrite_input(case: Case, memory: Memory, _: int) -> None:
    first = next(iter(case.inputs))
    memory[first].elements[...] = 0


def _write_masked(case: Case, memory: Memory, _: int) -> None:
    for name in set(case.outputs) - set(case.written):
        memory[name].elements[...] = 0


def _same_code(case: Case) -> AnyStatus | None:
    return None if refused(case) is None else Status.ACLNN_ERR_PARAM_INVALID


def _fault(description: str, kernel: Kernel) -> Fault:
    return Fault(description=description, kernel=kernel)


FAULTS: Mapping[str, Fault] = {
    "padding": _fault("Padding is one more than it is.", Kernel(change=_added_padding)),
    "padding sides": _fault(
        "Padding behind the image is taken for that before it.",
        Kernel(change=lambda call: replace(call, padding=call.after)),
    ),
    "strides swapped": _fault(
        "Strides of the dimensions are in the wrong order.",
        Kernel(change=lambda call: replace(call, stride=call.stride[::-1])),
    ),
    "dilation": _fault(
        "Taps lie one apart.",
        Kernel(change=lambda call: replace(call, dilation=(1,) * len(call.dilation))),
    ),
    "group offset": _fault(
        "Every group reads the first one's channels.", Kernel(change=_without_group_offset)
    ),
    "output padding": _fault(
        "What output_padding adds is not read.", Kernel(change=_without_output_padding)
    ),
    "kernel flipped": _fault("Taps are in reverse order.", Kernel(change=_flip, finish=_flip_back)),
    "batch tail": _fault(
        "The last entry of the batch is left out.", Kernel(change=_without_batch_tail)
    ),
    "channel tail": _fault(
        "Channels that fill no block of 4, of blocked tensors 16, are left out.",
        Kernel(change=_without_channel_tail),
    ),
    "superblocks": _fault(
        "Of the groups in a superblock the first one alone is read.",
        Kernel(change=_first_of_superblocks),
    ),
    "lanes": _fault(
        "Lanes of FRACTAL_Z's blocks are taken for each other.",
        Kernel(change=_swap_lanes, finish=_swap_lanes_back),
    ),
    "diagonal": _fault(
        "raw products off the diagonal where zeros belong, and zeros in their place.",
        Kernel(change=_other_raw),
    ),
    "row order": _fault(
        "Rows of taps and channels have the other order.", Kernel(change=_other_row_order)
    ),
    "order of param": _fault(
        "Dilations are taken for padding and padding for dilations.",
        Kernel(change=_other_param_order),
    ),
    "cores": _fault(
        "What cores would compute that core_mask leaves out is NaN.",
        Kernel(finish=_without_masked_cores),
    ),
    "float16 sums": _fault(
        "Sums of FLOAT16 products are kept in FLOAT16.", Kernel(change=_with_half_sums)
    ),
    "bfloat16 operands": _fault(
        "Operands are rounded to BF16 first.", Kernel(change=_with_brain_operands)
    ),
    "hf32 truncates": _fault(
        "Operands are cut to HF32 instead of rounded.", Kernel(hf32=_truncated_hf32)
    ),
    "hf32 left out": _fault(
        "Operands keep all their bits where the call asks for HF32.",
        Kernel(hf32=lambda values: values),
    ),
    "rounded twice": _fault(
        "Sums are rounded to one digit more before they become FLOAT16 or BF16.",
        Kernel(nearest=_rounded_twice),
    ),
    "float16 results": _fault(
        "Results are rounded to FLOAT16 whatever dtype they have.", Kernel(nearest=_through_half)
    ),
    "subnormals": _fault("Subnormal results are flushed to 0.", Kernel(nearest=_flushed)),
    "nan swallowed": _fault("A sum that is no number becomes 0.", Kernel(finish=_without_nan)),
    "saturation": _fault(
        "Results beyond FLOAT16's range are infinite on profiles that saturate.",
        Kernel(saturate=lambda values: values),
    ),
    "bias axes": _fault(
        "The bias sums as if channels were the last dimension.",
        Kernel(finish=_bias_over_wrong_axes),
    ),
    "bias of nothing": _fault(
        "The bias of an empty call is the number of positions, as if gradients were ones.",
        Kernel(finish=_ones_for_nothing),
    ),
    "times and entries": _fault(
        "Times of (T, B, C) are read as entries, and entries as times.",
        Kernel(change=_entries_as_times),
    ),
    "bias left out": _fault("No bias is added.", Kernel(change=without_bias)),
    "bias channels": _fault(
        "Each channel adds the bias of the channel before it.",
        Kernel(change=_bias_of_another_channel),
    ),
    "bias of groups": _fault(
        "Every group adds the bias of the first one.", Kernel(change=_bias_times_groups)
    ),
    "strides of views": _fault(
        "Inputs are read as if they were contiguous.", Kernel(read=_read_contiguously)
    ),
    "stale output": _fault(
        "The last column of an output is left as it was.", Kernel(write=_write_all_but_last)
    ),
    "adds to output": _fault(
        "Results are added to what the output held.", Kernel(write=_add_to_output)
    ),
    "gaps": _fault(
        "Storage between the elements of an output is set to 0.", Kernel(write=_write_over_gaps)
    ),
    "race": _fault("In one run of four, one element differs in its last bit.", Kernel(leave=_race)),
    "input overwritten": _fault("An input is set to 0 afterwards.", Kernel(leave=_overwrite_input)),
    "masked output": _fault(
        "An output that the mask leaves out is written.", Kernel(leave=_write_masked)
    ),
    "refusal missing": _fault("Every call is accepted.", Kernel(refuse=lambda _: None)),
    "refusal code": _fault("Every refusal has the code 161002.", Kernel(refuse=_same_code)),
    **FORWARD_FAULTS,
}
