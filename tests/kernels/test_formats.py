"""NC1HWC0 and FRACTAL_Z: shapes, places, zeros and round trips."""

from math import lcm
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from opserve_kernels.formats import (
    fractal_z_shape,
    from_5hd,
    from_fractal_z,
    group_dict,
    superblocks,
    to_5hd,
    to_fractal_z,
)

Shape = tuple[int, int, int, int]

laws = settings(max_examples=60, deadline=None, derandomize=True)
sizes = st.integers(1, 5)
dtypes = st.sampled_from(
    [np.float16, np.float32, np.float64, np.int8, np.int32, ml_dtypes.bfloat16]
)

# Of the facts: weight, groups; dx_extend and dy_extend, multiple_extend, g_extend, dx_c1_extend,
# dy_c1_extend and the shape in FRACTAL_Z.
_TABLE: tuple[tuple[Shape, int, tuple[int, ...], Shape], ...] = (
    ((16, 16, 1, 1), 1, (1, 1, 1, 1), (1, 1, 16, 16)),
    ((40, 20, 3, 3), 1, (1, 1, 2, 3), (18, 3, 16, 16)),
    ((32, 4, 3, 3), 4, (4, 1, 1, 2), (9, 2, 16, 16)),
    ((32, 1, 3, 3), 32, (16, 2, 1, 1), (18, 1, 16, 16)),
    ((33, 1, 3, 3), 33, (16, 3, 1, 1), (27, 1, 16, 16)),
    ((24, 24, 3, 3), 3, (2, 2, 3, 1), (54, 1, 16, 16)),
)


@st.composite
def weights(draw: st.DrawFn) -> tuple[Shape, int]:
    """Shapes of grouped weights, groups, with channels around the sizes of blocks."""
    groups = draw(st.integers(1, 40))
    channels = st.sampled_from([1, 2, 3, 4, 5, 8, 15, 16, 17, 24, 32, 33])
    outputs, inputs = draw(channels), draw(channels)
    return (groups * outputs, inputs, draw(st.integers(1, 3)), draw(st.integers(1, 3))), groups


def numbered(shape: tuple[int, ...], dtype: Any = np.float32) -> NDArray[Any]:
    """Values of which neighbours differ, none of them 0."""
    return (np.arange(np.prod(shape)) % 97 + 1).reshape(shape).astype(dtype)


def naive_fractal_z(weight: NDArray[Any], groups: int, c0: int) -> NDArray[Any]:
    """The formula of grouped FRACTAL_Z, element by element into zeros."""
    outputs, inputs, height, width = weight.shape
    group_outputs = outputs // groups
    whole = lcm(lcm(inputs, c0) // inputs, lcm(group_outputs, 16) // group_outputs)
    extend = min(whole, groups)
    count = -(-groups // extend)
    c1, n1 = -(-extend * inputs // c0), -(-extend * group_outputs // 16)
    result = np.zeros((count * c1 * height * width, n1, 16, c0), weight.dtype)
    for n, c, kh, kw in np.ndindex(*weight.shape):
        s, j = divmod(n // group_outputs, extend)
        ci, co = j * inputs + c, j * group_outputs + n % group_outputs
        row = ((s * c1 + ci // c0) * height + kh) * width + kw
        result[row, co // 16, co % 16, ci % c0] = weight[n, c, kh, kw]
    return result


@pytest.mark.parametrize(("shape", "groups", "counts", "fractal"), _TABLE)
def test_table_of_the_facts(
    shape: Shape, groups: int, counts: tuple[int, ...], fractal: Shape
) -> None:
    found = group_dict(shape, groups)

    keys = ("multiple_extend", "g_extend", "dx_c1_extend", "dy_c1_extend")
    assert tuple(found[key] for key in keys) == counts
    assert fractal_z_shape(shape, groups) == fractal
    assert to_fractal_z(numbered(shape), groups).shape == fractal


def test_group_dict_of_the_vendors_example() -> None:
    assert group_dict((16, 16, 1, 1), 1) == {
        "groups": 1,
        "g_extend": 1,
        "multiple_extend": 1,
        "dx_c1_extend": 1,
        "dy_c1_extend": 1,
        "dx_c_ori": 16,
        "dy_c_ori": 16,
        "filter_batch_ori": 16,
        "filter_c_ori": 16,
        "filter_ori_format": "NCHW",
    }


def test_group_dict_of_groups_has_the_channels_of_one_group() -> None:
    found = group_dict((32, 4, 3, 3), 4)

    assert (found["dx_c_ori"], found["filter_c_ori"]) == (4, 4)
    assert (found["dy_c_ori"], found["filter_batch_ori"]) == (8, 8)


@laws
@given(weights())
def test_superblocks_share_channels_in_whole_blocks_or_are_single(drawn: tuple[Any, int]) -> None:
    blocks = superblocks(*drawn)

    if blocks.extend < blocks.groups:
        assert blocks.extend * blocks.input_channels == blocks.input_blocks * 16
        assert blocks.extend * blocks.output_channels == blocks.output_blocks * 16
    else:
        assert blocks.count == 1


@laws
@given(weights(), dtypes)
def test_fractal_z_is_the_formula_with_zeros_elsewhere(drawn: tuple[Any, int], dtype: Any) -> None:
    shape, groups = drawn
    weight = numbered(shape, dtype)

    found = to_fractal_z(weight, groups)

    assert found.dtype == weight.dtype
    c0 = 32 if dtype is np.int8 else 16
    np.testing.assert_array_equal(found, naive_fractal_z(weight, groups, c0))


@laws
@given(weights(), dtypes)
def test_fractal_z_and_back_is_the_weight(drawn: tuple[Any, int], dtype: Any) -> None:
    shape, groups = drawn
    weight = numbered(shape, dtype)

    back = from_fractal_z(to_fractal_z(weight, groups), shape, groups)

    assert back.dtype == weight.dtype
    np.testing.assert_array_equal(back, weight)


@laws
@given(weights())
def test_float32_may_have_blocks_of_8(drawn: tuple[Any, int]) -> None:
    shape, groups = drawn
    weight = numbered(shape)

    found = to_fractal_z(weight, groups, c0=8)

    np.testing.assert_array_equal(found, naive_fractal_z(weight, groups, 8))
    np.testing.assert_array_equal(from_fractal_z(found, shape, groups), weight)


def test_from_fractal_z_reads_only_the_diagonal() -> None:
    weight = numbered((32, 4, 3, 3))
    fractal = to_fractal_z(weight, 4)
    fractal[fractal == 0] = np.nan

    np.testing.assert_array_equal(from_fractal_z(fractal, (32, 4, 3, 3), 4), weight)


@laws
@given(st.tuples(sizes, st.integers(1, 50), sizes, sizes), dtypes)
def test_5hd_and_back_is_the_image(shape: Shape, dtype: Any) -> None:
    image = numbered(shape, dtype)

    blocks = to_5hd(image)

    c0 = 32 if dtype is np.int8 else 16
    assert blocks.shape == (shape[0], -(-shape[1] // c0), shape[2], shape[3], c0)
    assert blocks.flags.c_contiguous
    np.testing.assert_array_equal(from_5hd(blocks, shape[1]), image)


@laws
@given(st.tuples(sizes, st.integers(1, 50), sizes, sizes), st.sampled_from([8, 16]))
def test_5hd_puts_channels_in_plain_order_with_zeros_beyond(shape: Shape, c0: int) -> None:
    image = numbered(shape)

    blocks = to_5hd(image, c0)

    wanted = np.zeros(blocks.shape, blocks.dtype)
    for n, c, h, w in np.ndindex(*shape):
        wanted[n, c // c0, h, w, c % c0] = image[n, c, h, w]
    np.testing.assert_array_equal(blocks, wanted)


def test_images_without_entries_have_none_in_5hd() -> None:
    assert to_5hd(np.ones((0, 3, 4, 5))).shape == (0, 1, 4, 5, 16)
    assert from_5hd(np.ones((0, 1, 4, 5, 16)), 3).shape == (0, 3, 4, 5)
    assert to_5hd(np.ones((2, 0, 4, 5))).shape == (2, 0, 4, 5, 16)
    assert from_5hd(np.ones((2, 0, 4, 5, 16)), 0).shape == (2, 0, 4, 5)


def test_strided_arrays_are_read_as_they_are() -> None:
    image = numbered((2, 4, 6, 20)).transpose(0, 3, 1, 2)[:, ::2]

    np.testing.assert_array_equal(from_5hd(to_5hd(image), 10), image)
    np.testing.assert_array_equal(from_fractal_z(to_fractal_z(image), image.shape), image)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: to_5hd(np.ones((2, 3, 4))),
            (r"array_nchw does not accept shape \(2, 3, 4\); " "it accepts 4"),
        ),
        (
            lambda: from_5hd(np.ones((2, 3, 4, 5)), 3),
            "array does not accept shape .*; it accepts 5",
        ),
        (
            lambda: from_5hd(np.ones((2, 2, 4, 5, 16)), 16),
            "channels is 16, and .* has 17 to 32",
        ),
        (
            lambda: from_5hd(np.ones((2, 2, 4, 5, 16)), 33),
            "channels is 33, and .* has 17 to 32",
        ),
        (
            lambda: from_5hd(np.ones((2, 0, 4, 5, 16)), -1),
            "channels is -1, and .* has 0 to 0",
        ),
        (
            lambda: to_5hd(np.ones((2, 3, 4, 5)), 8),
            "c0 does not accept 8; it accepts 16 for float64",
        ),
        (
            lambda: to_5hd(np.ones((2, 3, 4, 5), np.float32), 4),
            "c0 does not accept 4; it accepts 16 or 8 for float32",
        ),
        (
            lambda: to_fractal_z(np.ones((2, 3, 4, 5), np.int8), 1, 16),
            "c0 does not accept 16; it accepts 32 for int8",
        ),
        (
            lambda: to_fractal_z(np.ones((2, 3, 4))),
            "weight_nchw does not accept shape .*; it accepts 4",
        ),
        (
            lambda: to_fractal_z(np.ones((4, 3, 1, 1)), 3),
            "groups does not accept 3; it accepts divisors of Cout = 4",
        ),
        (
            lambda: to_fractal_z(np.ones((4, 3, 1, 1)), 0),
            "groups does not accept 0; it accepts divisors",
        ),
        (
            lambda: from_fractal_z(np.ones((2, 1, 16, 16)), (4, 3, 1, 1)),
            r"array does not accept shape \(2, 1, 16, 16\); it accepts \(1, 1, 16, 16\)",
        ),
        (
            lambda: from_fractal_z(np.ones((1, 1, 16, 8)), (4, 3, 1, 1)),
            "c0 does not accept 8; it accepts 16 for float64",
        ),
        (
            lambda: fractal_z_shape((4, 0, 1, 1)),
            (r"shape_nchw does not accept \(4, 0, 1, 1\); " "it accepts 4"),
        ),
        (
            lambda: fractal_z_shape((4, 3, 1)),
            (r"shape_nchw does not accept \(4, 3, 1\); " "it accepts 4 sizes"),
        ),
        (
            lambda: fractal_z_shape((4, 3, 1, 1), 1, 0),
            "c0 does not accept 0; it accepts at least 1",
        ),
        (lambda: group_dict((4, 3, 1, 1), -2), "groups does not accept -2; it accepts divisors"),
    ],
)
def test_values_that_do_not_fit_are_refused_with_the_given_and_the_allowed_one(
    call: Any, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        call()


_IMAGE, _BLOCKS, _WEIGHT = np.ones((2, 3, 4, 5)), np.ones((2, 1, 4, 5, 16)), np.ones((4, 3, 1, 1))


@pytest.mark.parametrize(
    ("function", "arguments", "message"),
    [
        (
            to_fractal_z,
            ("weight",),
            "weight_nchw does not accept str; it accepts an array of numbers",
        ),
        (to_5hd, (None,), "array_nchw does not accept NoneType; it accepts an array of numbers"),
        (from_5hd, ("image", 3), "array does not accept str; it accepts an array of numbers"),
        (
            from_fractal_z,
            ([[1], [2, 3]], (4, 3, 1, 1)),
            r"array does not accept list \(.*; it accepts an array",
        ),
        (from_5hd, (_BLOCKS, 3.0), "channels does not accept 3.0; it accepts an integer"),
        (to_5hd, (_IMAGE, 16.0), "c0 does not accept 16.0; it accepts an integer"),
        (to_fractal_z, (_WEIGHT, 2.0), "groups does not accept 2.0; it accepts an integer"),
        (to_fractal_z, (_WEIGHT, True), "groups does not accept True; it accepts an integer"),
        (group_dict, ((4, 3, 1, 1), "2"), "groups does not accept '2'; it accepts an integer"),
        (superblocks, ((4, 3, 1, 1), 1, None), "c0 does not accept None; it accepts an integer"),
        (
            fractal_z_shape,
            ((4, 1.5, 1, 1),),
            "shape_nchw does not accept 1.5; it accepts an integer",
        ),
        (
            fractal_z_shape,
            ((4, True, 1, 1),),
            "shape_nchw does not accept True; it accepts an integer",
        ),
        (fractal_z_shape, (4,), "shape_nchw does not accept 4; it accepts a sequence of integers"),
    ],
)
def test_a_value_of_another_kind_is_a_type_error(
    function: Any, arguments: tuple[Any, ...], message: str
) -> None:
    with pytest.raises(TypeError, match=message):
        function(*arguments)


def test_numpys_integers_are_as_good_as_pythons() -> None:
    weight, groups, sizes = numbered((4, 2, 1, 1)), np.int64(2), np.array([4, 2, 1, 1])
    as_if_typed: Any = (weight, groups, np.int32(16))

    found = to_fractal_z(*as_if_typed)

    np.testing.assert_array_equal(found, to_fractal_z(weight, 2, 16))
    as_if_typed = (sizes, groups)
    assert fractal_z_shape(*as_if_typed) == found.shape


def test_arrays_of_other_libraries_and_lists_are_converted() -> None:
    image, weight = np.ones((1, 3, 2, 2)), np.ones((4, 3, 1, 1))
    np.testing.assert_array_equal(to_5hd(image.tolist()), to_5hd(image))
    np.testing.assert_array_equal(to_fractal_z(weight.tolist()), to_fractal_z(weight))
    np.testing.assert_array_equal(from_5hd(to_5hd(image).tolist(), 3), image)
    back = from_fractal_z(to_fractal_z(weight).tolist(), (4, 3, 1, 1))
    np.testing.assert_array_equal(back, weight)
