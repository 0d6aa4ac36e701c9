"""aclnnConvDepthwise2d in float64, by naive NumPy loops that share nothing with the kernel."""

from collections.abc import Mapping

import numpy as np

from kernels.oracles.convolution_backward import Geometry
from kernels.oracles.expectation import Expectation
from kernels.oracles.forward import ForwardCall
from kernels.oracles.forward import expected as expected_output
from kernels.samples.sample import Bytes, Sample


def expected(
    sample: Sample, buffers: Mapping[str, Bytes], *, transformed: bool = False
) -> dict[str, Expectation]:
    """Expected output of a sample's call; none of an empty one, which writes nothing."""
    given = {name: array.astype(np.float64) for name, array in sample.logical(buffers).items()}
    given["input"] = given.pop("self")
    names = {"self": "input", "out": "output"}
    scalars = sample.scalars
    call = ForwardCall(
        operands=given,
        dtypes={
            names.get(name, name): tensor.dtype
            for name, tensor in sample.tensors.items()
            if tensor is not None
        },
        sizes=sample.outputs["out"].shape,
        geometry=Geometry(
            stride=tuple(scalars["stride"]),
            padding=tuple(scalars["padding"]),
            dilation=tuple(scalars["dilation"]),
            transposed=False,
            groups=given["input"].shape[1],
        ),
        cube_math_type=scalars["cube_math_type"],
        profile=sample.profile,
        is_transformed=transformed,
    )
    found = expected_output(call)
    return {} if found is None else {"out": found}
