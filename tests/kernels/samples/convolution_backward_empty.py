"""Calls with an empty input that break rules of other calls too."""

from kernels.samples.convolution_backward_errors import (
    EMPTY,
    EMPTY_TRANSPOSED,
    TAKING_EMPTY,
    refused,
    tensor_of,
)
from kernels.samples.sample import ErrorSample
from opserve_kernels.tensor import Format

ERRORS_OF_EMPTY: tuple[ErrorSample, ...] = (
    refused(
        "shape is not that of weight",
        "grad_weight",
        EMPTY,
        grad_weight=tensor_of(EMPTY, "grad_weight", shape=(4, 6, 3, 2)),
    ),
    refused("not a value for each spatial dimension", "stride", EMPTY, stride=(1,)),
    refused(
        "not as many dimensions as input",
        "grad_output",
        EMPTY,
        grad_output=tensor_of(EMPTY, "grad_output", shape=(0, 6, 4), format=Format.NCL),
    ),
    refused(
        "dimension 0 is not the channels of grad_output, or of input if transposed",
        "weight",
        EMPTY_TRANSPOSED,
        weight=tensor_of(EMPTY_TRANSPOSED, "weight", shape=(5, 6, 3, 2)),
        grad_weight=tensor_of(EMPTY_TRANSPOSED, "grad_weight", shape=(5, 6, 3, 2)),
    ),
    refused("smaller than the dilated kernel in 1-D or 2-D", "input", EMPTY, dilation=(3, 1)),
    refused("not those channels divided by weight's dimension 1", "groups", EMPTY, groups=2),
    refused(
        f"spatial sizes are not those of the convolution, input is empty {TAKING_EMPTY}",
        "grad_output",
        EMPTY_TRANSPOSED,
        grad_output=tensor_of(EMPTY_TRANSPOSED, "grad_output", shape=(0, 6, 6, 7)),
    ),
)
"""Rows that an empty input breaks too: checked in another place than the calls of ERROR_SAMPLES."""
