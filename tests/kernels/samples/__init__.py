"""The samples of every operator, by its name in the registry."""

from collections.abc import Mapping

from kernels.samples import (
    conv2d_backprop_filter,
    conv2d_backprop_input,
    convolution_backward,
    convolution_backward_empty,
    convolution_backward_errors,
    deconv_grad_filter,
    im2col_backward,
)
from kernels.samples.sample import ErrorSample, Sample

REGISTRY_SAMPLES: Mapping[str, tuple[Sample, ...]] = {
    "convolution_backward": convolution_backward.SAMPLES,
    "im2col_backward": im2col_backward.SAMPLES,
    "deconv_grad_filter": deconv_grad_filter.SAMPLES,
    "conv2d_backprop_filter": conv2d_backprop_filter.SAMPLES,
    "conv2d_backprop_input": conv2d_backprop_input.SAMPLES,
}
REGISTRY_ERROR_SAMPLES: Mapping[str, tuple[ErrorSample, ...]] = {
    "convolution_backward": convolution_backward_errors.ERROR_SAMPLES,
    "im2col_backward": im2col_backward.ERROR_SAMPLES,
    "deconv_grad_filter": deconv_grad_filter.ERROR_SAMPLES,
    "conv2d_backprop_filter": conv2d_backprop_filter.ERROR_SAMPLES,
    "conv2d_backprop_input": conv2d_backprop_input.ERROR_SAMPLES,
}
CONTRADICTED_SAMPLES: Mapping[str, tuple[ErrorSample, ...]] = {
    "convolution_backward": convolution_backward_errors.CONTRADICTED_SAMPLES,
    "im2col_backward": im2col_backward.CONTRADICTED_SAMPLES,
    "conv2d_backprop_filter": conv2d_backprop_filter.CONTRADICTED_SAMPLES,
    "conv2d_backprop_input": conv2d_backprop_input.CONTRADICTED_SAMPLES,
}
"""Calls that break a rule of RuleOrigin.CONTRADICTED."""
ERRORS_ELSEWHERE: Mapping[str, tuple[ErrorSample, ...]] = {
    "convolution_backward": convolution_backward_empty.ERRORS_OF_EMPTY,
}
"""More calls that break a row of the error table, where it is checked in more places than one."""
