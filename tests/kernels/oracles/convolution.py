"""aclnnConvolution in float64, by naive NumPy loops that share nothing with the kernel."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from kernels.oracles.convolution_backward import Geometry
from kernels.oracles.expectation import Doubles, Expectation
from kernels.oracles.forward import ForwardCall
from kernels.oracles.forward import expected as expected_output
from kernels.samples.sample import Bytes, Sample, TensorSample
from opserve_kernels.tensor import Format


def expected(
    sample: Sample, buffers: Mapping[str, Bytes], *, transformed: bool = False
) -> dict[str, Expectation]:
    """Expected output of a sample's call; none of an empty one, which writes nothing.

    Args:
        sample: The call.
        buffers: Its memory.
        transformed: Whether Winograd's algorithm computes it.
    """
    call = replace(forward_call(sample, buffers), is_transformed=transformed)
    found = expected_output(call)
    if found is None:
        return {}
    output = sample.outputs["output"]
    value, tolerance = (_laid(array, output) for array in (found.value, found.tolerance))
    return {"output": Expectation(value=value, tolerance=tolerance)}


def forward_call(sample: Sample, buffers: Mapping[str, Bytes]) -> ForwardCall:
    """A sample's call, channels first."""
    given = {name: array.astype(np.float64) for name, array in sample.logical(buffers).items()}
    tensors = {name: tensor for name, tensor in sample.tensors.items() if tensor is not None}
    sizes = _channels_first(np.empty(tensors["output"].shape), tensors["output"]).shape
    scalars, axes = sample.scalars, len(sizes) - 2
    padding = tuple(scalars["padding"])
    return ForwardCall(
        operands={name: _channels_first(array, tensors[name]) for name, array in given.items()},
        dtypes={name: tensor.dtype for name, tensor in tensors.items()},
        sizes=sizes,
        geometry=Geometry(
            stride=tuple(scalars["stride"]),
            padding=padding[::2] if len(padding) > axes else padding,
            dilation=tuple(scalars["dilation"]),
            transposed=scalars["transposed"],
            groups=scalars["groups"],
        ),
        cube_math_type=scalars["cube_math_type"],
        profile=sample.profile,
    )


def _channels_first(array: Doubles, tensor: TensorSample) -> Doubles:
    return np.moveaxis(array, -1, 1) if tensor.format is Format.NDHWC else array


def _laid(array: Doubles, tensor: TensorSample) -> Doubles:
    return np.moveaxis(array, 1, -1) if tensor.format is Format.NDHWC else array
