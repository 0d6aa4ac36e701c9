"""Which views lead to an element twice."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opserve_kernels.tensor import DataType, Format, Tensor, member_of

AXES = st.tuples(st.integers(1, 5), st.integers(0, 9))


def repeats(tensor: Tensor) -> bool:
    """Element by element."""
    places = [
        sum(index * stride for index, stride in zip(indices, tensor.element_strides, strict=True))
        for indices in product(*map(range, tensor.shape))
    ]
    return len(set(places)) < len(places)


def view(axes: list[tuple[int, int]]) -> Tensor:
    shape, strides = zip(*axes, strict=True)
    return Tensor(shape=shape, strides=strides, dtype=DataType.FLOAT)


@given(st.lists(AXES, min_size=1, max_size=2))
def test_repeated_elements_of_two_axes_are_found(axes: list[tuple[int, int]]) -> None:
    assert view(axes).repeats_elements == repeats(view(axes))


@given(st.lists(AXES, min_size=3, max_size=5))
def test_no_view_without_repeated_elements_is_said_to_have_some(
    axes: list[tuple[int, int]],
) -> None:
    assert repeats(view(axes)) or not view(axes).repeats_elements


@pytest.mark.parametrize(
    ("shape", "strides"),
    [((2, 3), None), ((3, 2), (1, 3)), ((2, 3), (3, 2)), ((1, 4), (0, 1)), ((0, 4), (0, 0))],
)
def test_usual_views_have_a_place_for_each_element(
    shape: tuple[int, ...], strides: tuple[int, ...] | None
) -> None:
    assert not Tensor(shape=shape, strides=strides, dtype=DataType.FLOAT).repeats_elements


@pytest.mark.parametrize("spelling", ["FLOAT16", "ACL_FLOAT16", 1])
def test_data_type_is_given_by_name_the_vendors_spelling_or_the_vendors_number(
    spelling: object,
) -> None:
    assert member_of(spelling, DataType) is DataType.FLOAT16


@pytest.mark.parametrize("spelling", ["NCL", "ACL_FORMAT_NCL", 47])
def test_format_is_given_by_name_the_vendors_spelling_or_the_vendors_number(
    spelling: object,
) -> None:
    assert member_of(spelling, Format) is Format.NCL


@pytest.mark.parametrize("spelling", ["FRACTAL_Z_3D", "ACL_FRACTAL_Z_3D", 33])
def test_fractal_z_3d_has_the_vendors_spelling_which_has_no_format_in_it(
    spelling: object,
) -> None:
    assert member_of(spelling, Format) is Format.FRACTAL_Z_3D
    assert member_of("ACL_FORMAT_FRACTAL_Z_3D", Format) is None


def test_undefined_has_the_vendors_spellings() -> None:
    assert member_of("ACL_DT_UNDEFINED", DataType) is DataType.UNDEFINED
    assert member_of("ACL_FORMAT_UNDEFINED", Format) is Format.UNDEFINED
    assert member_of("ACL_UNDEFINED", DataType) is None


@pytest.mark.parametrize("spelling", ["ACL_", "ACL_FORMAT_NCHW", "float", 5, True, None, [0], {}])
def test_spelling_that_the_vendor_lacks_is_no_data_type(spelling: object) -> None:
    assert member_of(spelling, DataType) is None


def test_every_member_is_given_by_its_number() -> None:
    assert all(member_of(dtype.acl_number, DataType) is dtype for dtype in DataType)
    assert all(member_of(tag.acl_number, Format) is tag for tag in Format)
