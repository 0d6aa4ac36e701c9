"""Forms of convolution_backward have what their names say: reports list cases by these names."""

import re

import pytest

from opserve_kernels.cases.forms.form import Form
from opserve_kernels.operators.convolution_backward.cases.calls import ConvolutionCall
from opserve_kernels.operators.convolution_backward.cases.forms import forms

FORMS = {form.name: form for form in forms()}
CALLS = {name: form.call for name, form in FORMS.items() if isinstance(form.call, ConvolutionCall)}


def _named(pattern: str) -> dict[str, ConvolutionCall]:
    found = {name: call for name, call in CALLS.items() if re.search(pattern, name)}
    assert found
    return found


def test_no_two_forms_have_one_name() -> None:
    assert len(FORMS) == len(CALLS) == len(list[Form](forms()))


@pytest.mark.parametrize("dimensions", [1, 2, 3])
def test_dimensions_are_those_of_the_kernel(dimensions: int) -> None:
    assert {call.axes for call in _named(rf"\b{dimensions}-D\b").values()} == {dimensions}


def test_groups_are_named_and_a_result_in_another_dtype_has_them_only_then() -> None:
    assert all(call.groups > 1 for call in _named("groups$|depthwise").values())
    for name, call in _named(" into ").items():
        assert (call.groups > 1) == name.endswith(", groups")


def test_sizes_of_kernels_are_those_of_the_name() -> None:
    for name, call in _named(r"\d x \d").items():
        kernel = tuple(map(int, re.findall(r"(\d)(?= x|(?<=x \d))", name)))
        assert call.weight[2:] == kernel
    assert all(set(call.weight[2:]) == {1} for call in _named("kernel of 1").values())
    for call in _named("kernel as large as the image").values():
        assert call.weight[2:] == call.input[2:]


def test_a_row_a_column_and_a_wide_image_are_images_of_that_kind() -> None:
    assert [call.input[2] for call in _named("one row").values()] == [1]
    assert [call.input[3] for call in _named("one column").values()] == [1]
    assert [call.input[3] > 50 * call.input[2] for call in _named("wide image").values()] == [True]


@pytest.mark.parametrize("step", ["stride", "padding", "dilation"])
def test_a_step_that_is_named_is_taken(step: str) -> None:
    for name, call in _named(rf"^\d-D (transposed, )?{step}").items():
        assert any(one > (step != "padding") for one in getattr(call, step)), name


def test_transposed_results_are_named_as_such() -> None:
    assert {name for name, call in CALLS.items() if call.transposed} == set(_named("transposed"))
