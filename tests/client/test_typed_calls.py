"""Typed calls: their required fields, integers for several dimensions, and their results."""

from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import Any

import numpy as np
import pytest

from client.fake_service import FakeService
from client.samples import columns, convolution, numbers
from opserve.v1.operator_service_pb2 import GetWorkspaceSizeRequest
from opserve_client import (
    AclnnError,
    Conv2dBackpropFilter,
    Conv2dBackpropInput,
    ConvDepthwise2d,
    Convolution,
    ConvolutionBackward,
    ConvTbc,
    ConvTbcBackward,
    DeconvGradFilter,
    Im2col,
    Im2colBackward,
    Session,
)
from opserve_client.operators import OPERATORS, get_workspace_size_request, plain

REQUIRED: Mapping[type, set[str]] = {
    ConvolutionBackward: {
        *("grad_output", "input", "weight", "bias_sizes", "stride", "padding", "dilation"),
        *("transposed", "output_padding", "groups", "output_mask", "cube_math_type"),
    },
    Im2colBackward: {
        *("grad_output", "input_size", "kernel_size", "dilation", "padding", "stride"),
    },
    ConvTbcBackward: {"self", "input", "weight", "bias", "pad", "cube_math_type"},
    Convolution: {
        *("input", "weight", "stride", "padding", "dilation", "transposed"),
        *("output_padding", "groups", "cube_math_type"),
    },
    ConvTbc: {"self", "weight", "bias", "pad", "cube_math_type"},
    ConvDepthwise2d: {
        *("self", "weight", "kernel_size", "stride", "padding", "dilation", "cube_math_type"),
    },
    Im2col: {"self", "kernel_size", "dilation", "padding", "stride"},
    Conv2dBackpropInput: {"filters", "out_backprop", "filter_sizes", "input_sizes", "para_dict"},
    Conv2dBackpropFilter: {"input_x", "out_backprop", "filter_sizes"},
    DeconvGradFilter: {"dy_data", "x_data"},
}


def sent(call: Any) -> GetWorkspaceSizeRequest:
    return get_workspace_size_request(plain(call), {})


def test_only_fields_whose_none_has_a_meaning_of_its_own_have_a_default() -> None:
    assert set(OPERATORS.values()) == set(REQUIRED)
    for operator, required in REQUIRED.items():
        found = {field.name for field in fields(operator) if field.default is MISSING}
        assert found == required


@pytest.mark.parametrize("operator", REQUIRED)
def test_a_missing_argument_is_a_type_error_and_none_is_a_null_pointer(operator: Any) -> None:
    required = REQUIRED[operator]
    for name in required:
        with pytest.raises(TypeError, match=f"missing 1 required keyword-only argument: '{name}'"):
            operator(**dict.fromkeys(required - {name}))
    call = operator(**dict.fromkeys(required))
    name = call.schema.__name__.split(".")[-2]
    assert getattr(sent(call), name).ListFields() == []


@pytest.mark.parametrize("spatial", [1, 2, 3])
def test_an_integer_sets_every_spatial_dimension_of_a_convolution(spatial: int) -> None:
    attributes = ("stride", "padding", "dilation", "output_padding")
    given: dict[str, Any] = {name: number for number, name in enumerate(attributes)}
    several = {name: [number] * spatial for name, number in given.items()}
    shape = (1, 1, *[3] * spatial)
    for tensor in ("input", "weight", "grad_output"):
        nulls = dict.fromkeys(("input", "weight", "grad_output")) | {tensor: numbers(*shape)}
        assert sent(convolution(**nulls, **given)) == sent(convolution(**nulls, **several))


def test_a_tensor_on_the_device_has_dimensions_for_integers(
    session: Session, fake: FakeService
) -> None:
    del fake
    tensor = session.empty((1, 1, 3, 3, 3), "float32")
    nulls = dict.fromkeys(("input", "grad_output"))
    assert sent(convolution(**nulls, weight=tensor, stride=np.int64(2))) == sent(
        convolution(**nulls, weight=tensor, stride=[2, 2, 2])
    )


def test_an_integer_sets_height_and_width_of_a_block() -> None:
    given = {"input_size": 5, "kernel_size": 2, "dilation": 1, "padding": 0, "stride": 3}
    several = {name: [number, number] for name, number in given.items()}
    assert sent(columns(**given)) == sent(columns(**several))


def test_a_required_gradient_is_an_array_or_an_error_that_names_the_mask(session: Session) -> None:
    grads = session.run(convolution(output_mask=[True, False, True]))
    assert grads.require("grad_input") is grads.grad_input
    message = "output_mask does not accept False at 1; it accepts True at 1, which computes grad_we"
    with pytest.raises(AclnnError, match=message):
        grads.require("grad_weight")
    wrong: Any = "weight"
    with pytest.raises(
        AclnnError, match="name does not accept 'weight'; it accepts grad_input, grad_weight"
    ):
        grads.require(wrong)
