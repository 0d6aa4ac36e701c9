"""The memory formats NC1HWC0 (5HD) and FRACTAL_Z, from and to plain arrays."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import lcm
from typing import Any, TypeVar, cast, overload

import numpy as np
from numpy.typing import NDArray

from opserve_kernels.array_like import ArrayLike, as_array
from opserve_kernels.errors import rejection

Scalar = TypeVar("Scalar", bound=np.generic)

BLOCK = 16  # C0, channels of a block, and N0, output channels of one of FRACTAL_Z
_C0_OF_BYTES = 32  # the same for a dtype of one byte
_C0_OF_FLOAT_CUBE = 8  # the same where a device computes float32 in blocks of 8; storage has 16
_RANK, _RANK_5HD, _RANK_FRACTAL_Z = 4, 5, 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Superblocks:
    """The layout of a convolution weight's groups in FRACTAL_Z.

    As many groups as fill whole blocks of channels share a superblock, on its diagonal; the last
    superblock may have fewer. Entries off the diagonal and beyond the channels are zero.

    Attributes:
        groups: Groups of channels.
        input_channels: Input channels of one group.
        output_channels: Output channels of one group.
        c0: Input channels of a block.
        extend: Groups in a superblock.
    """

    groups: int
    input_channels: int
    output_channels: int
    c0: int
    extend: int

    @property
    def count(self) -> int:
        """Superblocks."""
        return -(-self.groups // self.extend)

    @property
    def input_blocks(self) -> int:
        """Blocks of c0 input channels in a superblock."""
        return -(-self.extend * self.input_channels // self.c0)

    @property
    def output_blocks(self) -> int:
        """Blocks of 16 output channels in a superblock."""
        return -(-self.extend * self.output_channels // BLOCK)


@overload
def to_5hd(array_nchw: NDArray[Scalar], c0: int | None = ...) -> NDArray[Scalar]: ...
@overload
def to_5hd(array_nchw: ArrayLike, c0: int | None = ...) -> NDArray[Any]: ...
def to_5hd(array_nchw: ArrayLike, c0: int | None = None) -> NDArray[Any]:
    """An image (N, C, H, W) as (N, C1, H, W, C0); lanes beyond C are zero.

    Args:
        array_nchw: The image, as an array of any library, as in the next functions.
        c0: Channels of a block; None means 32 for dtypes of one byte, else 16. float32 may have 8.

    Raises:
        TypeError: An argument of the wrong kind.
        ValueError: Another number of dimensions, or another c0.
    """
    image = _with_rank("array_nchw", array_nchw, _RANK)
    batch, channels, height, width = image.shape
    block = _c0_of(image.dtype, c0)
    blocks = -(-channels // block)
    padded = np.zeros((batch, blocks * block, height, width), image.dtype)
    padded[:, :channels] = image
    split = padded.reshape(batch, blocks, block, height, width)
    return np.ascontiguousarray(split.transpose(0, 1, 3, 4, 2))


@overload
def from_5hd(array: NDArray[Scalar], channels: int) -> NDArray[Scalar]: ...
@overload
def from_5hd(array: ArrayLike, channels: int) -> NDArray[Any]: ...
def from_5hd(array: ArrayLike, channels: int) -> NDArray[Any]:
    """The first channels of an image (N, C1, H, W, C0), as (N, C, H, W).

    Args:
        array: The image.
        channels: C; they must fill all blocks but the last.

    Raises:
        TypeError: An argument of the wrong kind.
        ValueError: Another number of dimensions, or blocks of another number of channels.
    """
    image = _with_rank("array", array, _RANK_5HD)
    _check_integer("channels", channels)
    batch, blocks, height, width, block = image.shape
    least, most = (blocks - 1) * block + 1, blocks * block
    if not max(least, 0) <= channels <= most:
        raise ValueError(
            f"channels is {channels}, and an array of {blocks} blocks of {block} has "
            f"{max(least, 0)} to {most}: pass one of these."
        )
    merged = image.transpose(0, 1, 4, 2, 3).reshape(batch, most, height, width)
    return np.ascontiguousarray(merged[:, :channels])


@overload
def to_fractal_z(
    weight_nchw: NDArray[Scalar], groups: int = ..., c0: int | None = ...
) -> NDArray[Scalar]: ...
@overload
def to_fractal_z(
    weight_nchw: ArrayLike, groups: int = ..., c0: int | None = ...
) -> NDArray[Any]: ...
def to_fractal_z(weight_nchw: ArrayLike, groups: int = 1, c0: int | None = None) -> NDArray[Any]:
    """A weight (Cout, Cin/groups, KH, KW) as (G*C1*KH*KW, N1, 16, C0): GC1HWN1N0C0 in memory.

    Args:
        weight_nchw: The weight.
        groups: Groups of channels.
        c0: Input channels of a block; None means 32 for dtypes of one byte, else 16. float32 may
            have 8.

    Raises:
        TypeError: An argument of the wrong kind.
        ValueError: Another number of dimensions, groups that do not divide Cout, or another c0.
    """
    weight = _with_rank("weight_nchw", weight_nchw, _RANK)
    block = _c0_of(weight.dtype, c0)
    blocks = superblocks(weight.shape, groups, block)
    kernel = weight.shape[2:]
    taps = kernel[0] * kernel[1]
    n1, c1 = blocks.output_blocks, blocks.input_blocks
    dense = np.zeros((blocks.count, n1 * BLOCK, c1 * block, taps), weight.dtype)
    dense[_places(blocks)] = weight.reshape(*weight.shape[:2], taps)
    split = dense.reshape(blocks.count, n1, BLOCK, c1, block, taps)
    shape = fractal_z_shape(weight.shape, groups, block)
    return split.transpose(0, 3, 5, 1, 2, 4).reshape(shape)


@overload
def from_fractal_z(
    array: NDArray[Scalar], shape_nchw: tuple[int, ...], groups: int = ...
) -> NDArray[Scalar]: ...
@overload
def from_fractal_z(
    array: ArrayLike, shape_nchw: tuple[int, ...], groups: int = ...
) -> NDArray[Any]: ...
def from_fractal_z(array: ArrayLike, shape_nchw: tuple[int, ...], groups: int = 1) -> NDArray[Any]:
    """A weight in FRACTAL_Z as (Cout, Cin/groups, KH, KW); only the diagonal is read.

    Args:
        array: The weight; its last axis is C0.
        shape_nchw: Cout, Cin/groups, KH, KW.
        groups: Groups of channels.

    Raises:
        TypeError: An argument of the wrong kind.
        ValueError: Groups that do not divide Cout, or an array of another shape.
    """
    weight = _with_rank("array", array, _RANK_FRACTAL_Z)
    block = weight.shape[-1]
    expected = fractal_z_shape(shape_nchw, groups, _c0_of(weight.dtype, block))
    if weight.shape != expected:
        raise ValueError(rejection("array", given=f"shape {weight.shape}", allowed=expected))
    blocks = superblocks(shape_nchw, groups, block)
    taps = shape_nchw[2] * shape_nchw[3]
    n1, c1 = blocks.output_blocks, blocks.input_blocks
    split = weight.reshape(blocks.count, c1, taps, n1, BLOCK, block)
    dense = split.transpose(0, 3, 4, 1, 5, 2).reshape(blocks.count, n1 * BLOCK, c1 * block, taps)
    return dense[_places(blocks)].reshape(shape_nchw)


def fractal_z_shape(
    shape_nchw: tuple[int, ...], groups: int = 1, c0: int = BLOCK
) -> tuple[int, int, int, int]:
    """The shape (G*C1*KH*KW, N1, 16, C0) of a weight (Cout, Cin/groups, KH, KW) in FRACTAL_Z.

    Raises:
        TypeError: An argument of the wrong kind.
        ValueError: A size below 1, or groups that do not divide Cout.
    """
    blocks = superblocks(shape_nchw, groups, c0)
    rows = blocks.count * blocks.input_blocks * shape_nchw[2] * shape_nchw[3]
    return (rows, blocks.output_blocks, BLOCK, c0)


def group_dict(w_shape_nchw: tuple[int, ...], groups: int, c0: int = BLOCK) -> dict[str, int | str]:
    """The group_dict of conv2d_backprop_input's para_dict, with the vendor's keys.

    The vendor's page gives no formula for g_extend: groups / multiple_extend, rounded up.

    Args:
        w_shape_nchw: Cout, Cin/groups, KH, KW.
        groups: Groups of channels.
        c0: Input channels of a block.

    Raises:
        TypeError: An argument of the wrong kind.
        ValueError: A size below 1, or groups that do not divide Cout.
    """
    blocks = superblocks(w_shape_nchw, groups, c0)
    return {
        "g_extend": blocks.count,
        "multiple_extend": blocks.extend,
        "groups": groups,
        "dx_c1_extend": blocks.input_blocks,
        "dy_c1_extend": blocks.output_blocks,
        "dx_c_ori": blocks.input_channels,
        "dy_c_ori": blocks.output_channels,
        "filter_batch_ori": blocks.output_channels,
        "filter_c_ori": blocks.input_channels,
        "filter_ori_format": "NCHW",
    }


def superblocks(shape_nchw: tuple[int, ...], groups: int = 1, c0: int = BLOCK) -> Superblocks:
    """The layout of a weight (Cout, Cin/groups, KH, KW) in FRACTAL_Z.

    Raises:
        TypeError: An argument of the wrong kind.
        ValueError: A size below 1, or groups that do not divide Cout.
    """
    _check_integers("shape_nchw", shape_nchw)
    _check_integer("groups", groups)
    _check_integer("c0", c0)
    if len(shape_nchw) != _RANK or min(shape_nchw) < 1:
        raise ValueError(
            rejection("shape_nchw", given=shape_nchw, allowed="4 sizes, each at least 1")
        )
    if c0 < 1:
        raise ValueError(rejection("c0", given=c0, allowed="at least 1"))
    if groups < 1 or shape_nchw[0] % groups != 0:
        raise ValueError(
            rejection("groups", given=groups, allowed=f"divisors of Cout = {shape_nchw[0]}")
        )
    inputs, outputs = shape_nchw[1], shape_nchw[0] // groups
    whole = lcm(lcm(inputs, c0) // inputs, lcm(outputs, BLOCK) // outputs)
    return Superblocks(
        groups=groups,
        input_channels=inputs,
        output_channels=outputs,
        c0=c0,
        extend=min(whole, groups),
    )


def _places(
    blocks: Superblocks,
) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.intp]]:
    """Superblock, output channel in it and input channel in it of every (Cout, Cin/groups)."""
    outputs = np.arange(blocks.groups * blocks.output_channels)[:, None]
    superblock, member = np.divmod(outputs // blocks.output_channels, blocks.extend)
    inputs = member * blocks.input_channels + np.arange(blocks.input_channels)
    rows = member * blocks.output_channels + outputs % blocks.output_channels
    return superblock, rows, inputs


def _c0_of(dtype: np.dtype[Any], c0: int | None) -> int:
    allowed = [_C0_OF_BYTES if dtype.itemsize == 1 else BLOCK]
    if dtype == np.float32:
        allowed.append(_C0_OF_FLOAT_CUBE)
    if c0 is None:
        return allowed[0]
    _check_integer("c0", c0)
    if c0 not in allowed:
        names = " or ".join(map(str, allowed))
        raise ValueError(rejection("c0", given=c0, allowed=f"{names} for {dtype}"))
    return c0


def _with_rank(name: str, value: object, rank: int) -> NDArray[Any]:
    """Returns an array of any library as NumPy's, if it has as many dimensions."""
    try:
        array = as_array(value)
    except TypeError as error:
        raise TypeError(rejection(name, given=error, allowed="an array of numbers")) from error
    if array.ndim != rank:
        raise ValueError(
            rejection(name, given=f"shape {array.shape}", allowed=f"{rank} dimensions")
        )
    return array


def _check_integers(name: str, values: object) -> None:
    if not isinstance(values, Sequence | np.ndarray):
        raise TypeError(rejection(name, given=repr(values), allowed="a sequence of integers"))
    for value in cast("Sequence[object]", values):  # an array of integers is one too
        _check_integer(name, value)


def _check_integer(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise TypeError(rejection(name, given=repr(value), allowed="an integer"))
