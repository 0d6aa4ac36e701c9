"""The samples of every operator, by its name in the registry."""

from collections.abc import Mapping

from kernels.samples import convolution_backward, convolution_backward_errors, im2col_backward
from kernels.samples.sample import ErrorSample, Sample

REGISTRY_SAMPLES: Mapping[str, tuple[Sample, ...]] = {
    "convolution_backward": convolution_backward.SAMPLES,
    "im2col_backward": im2col_backward.SAMPLES,
}
REGISTRY_ERROR_SAMPLES: Mapping[str, tuple[ErrorSample, ...]] = {
    "convolution_backward": convolution_backward_errors.ERROR_SAMPLES,
    "im2col_backward": im2col_backward.ERROR_SAMPLES,
}
