"""aclnnConvTbc in float64, by naive NumPy loops over permuted axes."""

from collections.abc import Mapping

import numpy as np

from kernels.oracles.convolution_backward import Geometry
from kernels.oracles.expectation import Expectation, expect
from kernels.oracles.forward import ForwardCall
from kernels.oracles.forward import expected as expected_output
from kernels.oracles.rounding import saturate
from kernels.samples.sample import Bytes, Sample
from opserve_kernels.tensor import DataType

_TO_NCL, _TO_TBC, _TO_WEIGHT = (1, 2, 0), (2, 0, 1), (2, 1, 0)


def expected(
    sample: Sample, buffers: Mapping[str, Bytes], *, transformed: bool = False
) -> dict[str, Expectation]:
    """Expected output of a sample's call; none if it has no elements."""
    given = {name: array.astype(np.float64) for name, array in sample.logical(buffers).items()}
    shape = sample.outputs["out"].shape
    call = ForwardCall(
        operands={
            "input": given["self"].transpose(_TO_NCL),
            "weight": given["weight"].transpose(_TO_WEIGHT),
            "bias": given["bias"],
        },
        dtypes={
            "input": sample.inputs["self"].dtype,
            "weight": sample.inputs["weight"].dtype,
            "bias": sample.inputs["bias"].dtype,
            "output": sample.outputs["out"].dtype,
        },
        sizes=tuple(shape[axis] for axis in _TO_NCL),
        geometry=Geometry(
            stride=(1,),
            padding=(sample.scalars["pad"],),
            dilation=(1,),
            transposed=False,
            groups=1,
        ),
        cube_math_type=sample.scalars["cube_math_type"],
        profile=sample.profile,
        is_transformed=transformed,
    )
    found = expected_output(call)
    if found is None:
        return {"out": _bias_alone(call, shape)} if 0 not in shape else {}
    value, tolerance = (array.transpose(_TO_TBC) for array in (found.value, found.tolerance))
    return {"out": Expectation(value=value, tolerance=tolerance)}


def _bias_alone(call: ForwardCall, shape: tuple[int, ...]) -> Expectation:
    """Without products, the bias in the dtype of out at every position."""
    value, dtype = np.broadcast_to(call.operands["bias"], shape), call.dtypes["output"]
    found = expect(value, np.zeros(shape), terms=0, roundings=(dtype,))
    if call.saturates and dtype == DataType.FLOAT16:
        return Expectation(value=saturate(found.value), tolerance=found.tolerance)
    return found
