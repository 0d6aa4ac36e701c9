"""Calls of the client as calls of models: the same arguments, for the Open Inference Protocol."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from opserve_client import (
    Conv2dBackpropFilter,
    Convolution,
    ConvolutionBackward,
    ConvTbc,
    Im2col,
    Im2colBackward,
)
from opserve_client.operators import OperatorCall, tensor_fields

Array = NDArray[Any]
Drawn = Callable[..., Array]
DATATYPES = {
    "float32": "FP32",
    "float16": "FP16",
    "bfloat16": "BF16",
    "float64": "FP64",
    "int64": "INT64",
    "bool": "BOOL",
}
DTYPES = {
    "FP32": np.dtype(np.float32),
    "FP16": np.dtype(np.float16),
    "BF16": np.dtype(ml_dtypes.bfloat16),
    "FP64": np.dtype(np.float64),
}


@dataclass(frozen=True)
class ModelCall:
    """A call of a model, as text and arrays.

    Attributes:
        model: Name of the model.
        parameters: Attributes, with lists as JSON text.
        inputs: Arrays by name.
        outputs: Requested outputs; empty means all.
    """

    model: str
    parameters: Mapping[str, int | bool | str]
    inputs: Mapping[str, Array]
    outputs: Sequence[str] = ()


def model_call(call: OperatorCall[Any], form: str, **options: str) -> ModelCall:
    """The call of the model that does what session.run does."""
    names = tensor_fields(call)
    given = {field.name: getattr(call, field.name) for field in fields(call)}  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]  # a dataclass
    inputs = {name: given[name] for name in names if given[name] is not None}
    texts = {
        name: value if isinstance(value, int | str) else json.dumps(value)
        for name, value in given.items()
        if name not in names and value is not None
    }
    model = call.schema.CALL + (f"_{form}" if form else "")
    return ModelCall(model, {**texts, **options}, inputs)


def ten_calls(dtype: str) -> list[tuple[str, OperatorCall[Any]]]:
    """Ten calls, with the form of their tensors."""
    random = np.random.default_rng(7)

    def drawn(*shape: int) -> Array:
        return random.standard_normal(shape).astype(DTYPES[DATATYPES[dtype]])

    precision = 3 if dtype == "float32" else 0
    return [*_convolutions(drawn, precision), *_others(drawn, precision, dtype)]


def _steps(rank: int, precision: int) -> dict[str, Any]:
    lists = {"stride": [1] * rank, "padding": [1] * rank, "dilation": [1] * rank}
    others = {"transposed": False, "groups": 1, "cube_math_type": precision}
    return {**lists, "output_padding": [0] * rank, **others}


def _convolutions(drawn: Drawn, precision: int) -> Iterator[tuple[str, OperatorCall[Any]]]:
    one, two, three = (_steps(rank, precision) for rank in (1, 2, 3))
    yield "1d", Convolution(input=drawn(2, 3, 9), weight=drawn(4, 3, 3), **one)
    operands: dict[str, Any] = {"input": drawn(2, 3, 6, 7), "weight": drawn(4, 3, 3, 3)}
    yield "", Convolution(**operands, bias=drawn(4), **two)
    image, weight = drawn(1, 2, 4, 4, 5), drawn(2, 2, 3, 3, 3)
    yield "3d", Convolution(input=image, weight=weight, **three)
    for mask in ([True, True, True], [False, True, False]):
        gradient: dict[str, Any] = {
            "grad_output": drawn(2, 4, 6, 7),
            "bias_sizes": [4],
            "output_mask": mask,
        }
        yield "", ConvolutionBackward(**operands, **gradient, **two)


def _others(drawn: Drawn, precision: int, dtype: str) -> Iterator[tuple[str, OperatorCall[Any]]]:
    kernel = {"kernel_size": [2, 2], "dilation": [1, 1], "padding": [0, 0], "stride": [1, 1]}
    yield "", Im2col(self=drawn(1, 2, 4, 5), **kernel)
    yield "unbatched", Im2col(self=drawn(2, 4, 5), **kernel)
    yield "", Im2colBackward(grad_output=drawn(1, 8, 12), input_size=[4, 5], **kernel)
    image, weight, bias = drawn(5, 2, 3), drawn(3, 3, 4), drawn(4)
    yield "", ConvTbc(self=image, weight=weight, bias=bias, pad=1, cube_math_type=precision)
    tbe = DTYPES["BF16" if dtype == "bfloat16" else "FP16"]
    yield (
        "",
        Conv2dBackpropFilter(
            input_x=drawn(1, 1, 5, 5, 16).astype(tbe),
            out_backprop=drawn(1, 1, 3, 3, 16).astype(tbe),
            filter_sizes=[16, 16, 3, 3],
            para_dict={"strides": [1, 1], "padding": [0, 0, 0, 0]},
        ),
    )
