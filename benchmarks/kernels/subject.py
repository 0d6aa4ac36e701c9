"""Kernels of opserve: a planned call that runs in this process as in a worker."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.kernels.arrays import Array, aligned_bytes, aligned_copy
from benchmarks.kernels.shapes import ConvolutionShape, FoldShape
from opserve_kernels.operator import Accuracy, Plan, PlanOptions
from opserve_kernels.operators.convolution.schema import Convolution
from opserve_kernels.operators.convolution_backward.schema import ConvolutionBackward
from opserve_kernels.operators.deconv_grad_filter.schema import DeconvGradFilter
from opserve_kernels.operators.im2col.schema import Im2col
from opserve_kernels.operators.im2col_backward.schema import Im2colBackward
from opserve_kernels.profiles import PROFILES
from opserve_kernels.registry import OPERATORS
from opserve_kernels.stages import stage_ends
from opserve_kernels.tensor import NUMPY_DTYPES, DataType, Format, Tensor
from opserve_server.pool.shares import run_shares, shares_of

Bytes = NDArray[np.uint8]
Mask = tuple[bool, bool, bool]
Arguments = Any
"""The dataclass of an operator's arguments."""
DIRECT, FAST = (PlanOptions(accuracy=accuracy) for accuracy in Accuracy)

_FORMATS = {3: Format.NCL, 4: Format.NCHW, 5: Format.NCDHW}
_KEEP_DTYPE = 0
_POOL = ThreadPoolExecutor()  # starts a thread at the first share for it


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A planned call with its operands; the service caches plans too.

    Attributes:
        plan: Plan of phase one.
        run: The kernel.
        parameters: Parameters of the plan.
        buffers: Tensors of the schema: operands, and None for each result.
        workspace: Workspace, which every run reuses like callers of the service.
        results: Index, name and tensor of each result.
    """

    plan: Plan
    run: Callable[[NDArray[np.int64], Sequence[Bytes], Bytes, int, int], None]
    parameters: NDArray[np.int64]
    buffers: tuple[Bytes, ...]
    workspace: Bytes
    results: tuple[tuple[int, str, Tensor], ...]

    def __call__(self) -> dict[str, Bytes]:
        """Runs all work units; results are in new memory, as in PyTorch."""
        buffers = list(self.buffers)
        written: dict[str, Bytes] = {}
        for place, name, tensor in self.results:
            size_bytes = tensor.element_count * tensor.dtype.size_bytes
            buffers[place] = written[name] = aligned_bytes(size_bytes)
        run = partial(self.run, self.parameters, buffers, self.workspace)
        if len(self.plan.shares) == 1:
            run(0, self.plan.units)
        else:
            ends = stage_ends(self.plan.parameters)
            run_shares(run, shares_of(self.plan.shares), ends, _POOL, look_up=lambda: True)
        return written

    def arrays(self) -> dict[str, Array]:
        """Returns the results of a run."""
        written = self()
        return {
            name: written[name].view(NUMPY_DTYPES[tensor.dtype]).reshape(tensor.shape)
            for _, name, tensor in self.results
        }

    @property
    def algorithm(self) -> str:
        """The algorithm that the plan chose; "" for plans without a choice."""
        return " / ".join(self.plan.algorithms)


def gradients_call(
    shape: ConvolutionShape,
    arrays: Mapping[str, Array],
    dtype: DataType,
    mask: Mask,
    options: PlanOptions = DIRECT,
) -> Call:
    """Plans convolution_backward."""
    arguments = gradients_arguments(shape, dtype, mask)
    return _prepared("convolution_backward", "ascend910b", arguments, arrays, options)


def gradients_arguments(shape: ConvolutionShape, dtype: DataType, mask: Mask) -> Arguments:
    """Returns the arguments of convolution_backward without the outputs."""
    layout = _FORMATS[shape.rank + 2]
    return ConvolutionBackward(
        grad_output=Tensor(shape=shape.output_shape, dtype=dtype, format=layout),
        input=Tensor(shape=shape.input_shape, dtype=dtype, format=layout),
        weight=Tensor(shape=shape.weight_shape, dtype=dtype, format=layout),
        bias_sizes=(shape.out_channels,),
        stride=shape.stride,
        padding=shape.padding,
        dilation=shape.dilation,
        transposed=shape.transposed,
        output_padding=shape.output_padding,
        groups=shape.groups,
        output_mask=mask,
        cube_math_type=_KEEP_DTYPE,
    )


def forward_call(
    shape: ConvolutionShape, arrays: Mapping[str, Array], options: PlanOptions = DIRECT
) -> Call:
    """Plans convolution."""
    layout = _FORMATS[shape.rank + 2]
    arguments = Convolution(
        input=Tensor(shape=shape.input_shape, dtype=DataType.FLOAT, format=layout),
        weight=Tensor(shape=shape.weight_shape, dtype=DataType.FLOAT, format=layout),
        bias=Tensor(shape=(shape.out_channels,), dtype=DataType.FLOAT),
        stride=shape.stride,
        padding=shape.padding,
        dilation=shape.dilation,
        transposed=shape.transposed,
        output_padding=shape.output_padding,
        groups=shape.groups,
        cube_math_type=_KEEP_DTYPE,
    )
    return _prepared("convolution", "ascend910b", arguments, arrays, options)


def fold_call(shape: FoldShape, columns: Array) -> Call:
    """Plans im2col_backward."""
    arguments = Im2colBackward(
        grad_output=Tensor(shape=shape.columns_shape, dtype=DataType.FLOAT),
        input_size=shape.size,
        kernel_size=(shape.kernel,) * 2,
        dilation=(shape.dilation,) * 2,
        padding=(shape.padding,) * 2,
        stride=(shape.stride,) * 2,
    )
    return _prepared("im2col_backward", "ascend910b", arguments, {"grad_output": columns})


def unfold_call(shape: FoldShape, image: Array) -> Call:
    """Plans im2col."""
    arguments = Im2col(
        self=Tensor(shape=shape.image_shape, dtype=DataType.FLOAT),
        kernel_size=(shape.kernel,) * 2,
        dilation=(shape.dilation,) * 2,
        padding=(shape.padding,) * 2,
        stride=(shape.stride,) * 2,
    )
    return _prepared("im2col", "ascend910b", arguments, {"self": image})


def filter_call(shape: ConvolutionShape, arrays: Mapping[str, Array]) -> Call:
    """Plans deconv_grad_filter; for a plain convolution, image and output exchange roles.

    Its result is (1, channels of dy_data * taps, channels of x_data).
    """
    small, big = ("input", "grad_output") if shape.transposed else ("grad_output", "input")
    operands = {
        name: np.ascontiguousarray(np.moveaxis(arrays[source], 1, -1))
        for name, source in (("x_data", small), ("dy_data", big))
    }
    x_data, dy_data = (
        Tensor(shape=operands[name].shape, dtype=DataType.FLOAT, format=Format.NHWC)
        for name in ("x_data", "dy_data")
    )
    arguments = DeconvGradFilter(
        dy_data=dy_data,
        x_data=x_data,
        kernel_h=shape.kernel[0],
        kernel_w=shape.kernel[1],
        stride_h=shape.stride[0],
        stride_w=shape.stride[1],
        pad_u=shape.padding[0],
        pad_l=shape.padding[1],
        dilation_h=shape.dilation[0],
        dilation_w=shape.dilation[1],
    )
    return _prepared("deconv_grad_filter", "ft78ne", arguments, operands)


def filter_of(shape: ConvolutionShape, weight: Array) -> Array:
    """Returns a weight gradient in the layout of deconv_grad_filter."""
    small = shape.in_channels if shape.transposed else shape.out_channels
    return weight.reshape(small, -1).T[np.newaxis]


def plan_of(
    name: str, profile: str, arguments: Arguments, options: PlanOptions = DIRECT
) -> tuple[Plan, Mapping[str, Tensor]]:
    """Returns the plan of a call, and the outputs that a caller would allocate."""
    operator = OPERATORS[name]
    outputs = operator.infer_outputs(arguments)
    return operator.plan(replace(arguments, **outputs), PROFILES[profile], options), outputs


def _prepared(
    name: str,
    profile: str,
    arguments: Arguments,
    arrays: Mapping[str, Array],
    options: PlanOptions = DIRECT,
) -> Call:
    plan, outputs = plan_of(name, profile, arguments, options)
    operator = OPERATORS[name]
    nothing = np.empty(0, np.uint8)
    fields = operator.tensor_fields
    return Call(
        plan=plan,
        run=import_module(operator.kernel(PROFILES[profile])).run,
        parameters=np.array(plan.parameters, np.int64),
        buffers=tuple(
            aligned_copy(arrays[field]) if field in arrays else nothing for field in fields
        ),
        workspace=aligned_bytes(plan.workspace_size),
        results=tuple((fields.index(field), field, tensor) for field, tensor in outputs.items()),
    )
