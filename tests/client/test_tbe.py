"""The TBE DSL's own spelling: placeholders, calls and results, over a session that records."""

import importlib
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

from opserve_client import Conv2dBackpropFilter, Conv2dBackpropInput, TbeError
from opserve_client.operators import call_of, plain
from opserve_client.tbe import install
from opserve_client.tbe.tensors import Tensor

Array = NDArray[Any]
FILTER_SIZES = (32, 1, 3, 2)  # depthwise: 32 groups in 2 superblocks of 16
INPUT_SIZES = (2, 32, 5, 4)
PARA_DICT = {"strides": [1, 1], "padding": [0, 0, 0, 0], "dilations": [1, 1, 1, 1]}


class Result(NamedTuple):
    """The result of a call of the fake."""

    res_tensor: Array


class FakeSession:
    """A session whose calls return numbers in order, in the shape of the service's result."""

    def __init__(self) -> None:
        self.calls: list[Any] = []
        self.failure: Exception | None = None
        self.filter_shape: tuple[int, ...] = (2 * 6, 1, 16, 16)

    def run(self, call: Any) -> Any:
        self.calls.append(call)
        if self.failure is not None:
            raise self.failure
        is_input = isinstance(call, Conv2dBackpropInput)
        shape = (2, 2, 5, 4, 16) if is_input else self.filter_shape
        return Result(np.arange(np.prod(shape), dtype=np.float32).reshape(shape))


@pytest.fixture
def fake_session() -> FakeSession:
    return FakeSession()


@pytest.fixture
def data() -> dict[str, Array]:
    return {
        "filters": np.ones((12, 1, 16, 16), np.float16),
        "out_backprop": np.ones((2, 2, 3, 3, 16), np.float16),
        "fmap": np.ones((2, 2, 5, 4, 16), np.float16),
    }


@pytest.fixture
def installed(fake_session: FakeSession, data: Mapping[str, Array]) -> Iterator[None]:
    with install(fake_session, data):
        yield


def tvm() -> Any:
    return importlib.import_module("tbe.tvm")


def dsl() -> Any:
    return importlib.import_module("tbe.dsl")


def placeholder(name: str, data: Mapping[str, Array]) -> Any:
    return tvm().placeholder(data[name].shape, name=name, dtype=data[name].dtype.name)


def input_call(data: Mapping[str, Array], **changes: Any) -> Any:
    arguments = {
        "filters": placeholder("filters", data),
        "out_backprop": placeholder("out_backprop", data),
        "filter_sizes": FILTER_SIZES,
        "input_sizes": INPUT_SIZES,
        "para_dict": PARA_DICT,
    }
    return dsl().conv2d_backprop_input(**arguments | changes)


def filter_call(data: Mapping[str, Array], **changes: Any) -> Any:
    arguments = {
        "input_x": placeholder("fmap", data),
        "out_backprop": placeholder("out_backprop", data),
        "filter_sizes": FILTER_SIZES,
        "para_dict": {"groups": 32},
    }
    return dsl().conv2d_backprop_filter(**arguments | changes)


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("dtype", ["float16", "float32", "bfloat16", "float64"])
def test_a_placeholder_has_what_it_was_given(dtype: str, data: dict[str, Array]) -> None:
    data["x"] = np.arange(6).reshape(2, 3).astype(np.dtype(getattr(ml_dtypes, dtype, dtype)))
    tensor = tvm().placeholder([2, 3], name="x", dtype=dtype)
    assert (tensor.shape, tensor.dtype, tensor.name, tensor.op.name) == ((2, 3), dtype, "x", "x")
    assert tensor.numpy() is data["x"]


@pytest.mark.usefixtures("installed")
def test_a_placeholder_takes_tvms_order_and_defaults(data: dict[str, Array]) -> None:
    data["placeholder"] = np.zeros((2, 3), np.float32)
    assert tvm().placeholder((2, 3)).name == "placeholder"
    assert tvm().placeholder((12, 1, 16, 16), "float16", "filters").dtype == "float16"


@pytest.mark.usefixtures("installed")
def test_a_placeholder_takes_either_byte_order(data: dict[str, Array]) -> None:
    data["x"] = np.ones(3, np.dtype(np.float16).newbyteorder())
    assert tvm().placeholder((3,), "float16", "x").dtype == "float16"


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ((1,), "float16", "x"),
            "name does not accept 'x'; it accepts a name in the data: 'filters', 'out_",
        ),
        (((1,), "float16", ["x"]), r"name does not accept \['x'\]; it accepts a string"),
        (
            ((1,), "int8", "filters"),
            "dtype does not accept 'int8'; it accepts float16 or float32 or bfloat16 or",
        ),
        (((1,), ["int8"], "filters"), r"dtype does not accept \['int8'\]; it accepts a string"),
        (
            ((1,), np.float16, "filters"),
            "dtype does not accept <class 'numpy.float16'>; it accepts a string",
        ),
        (
            (("n",), "float16", "filters"),
            r"shape does not accept \('n',\); it accepts a sequence of integers",
        ),
        (
            ((12, 1, 256), "float16", "filters"),
            (
                r"data\['filters'\] does not accept float16 \[12, 1, 16, 16\]; "
                r"it accepts .* \[12, 1, 256\]"
            ),
        ),
        (
            ((12, 1, 16, 16), "bfloat16", "filters"),
            (
                r"data\['filters'\] does not accept float16 \[12, 1, 16, 16\]; "
                r"it accepts .* of bfloat16 \[12, 1"
            ),
        ),
        (
            ((3,), "float16", "a list"),
            r"data\['a list'\] does not accept int64 \[3\]; it accepts an array of float16",
        ),
    ],
)
def test_a_placeholder_without_its_data_is_refused(
    arguments: tuple[Any, ...], message: str, data: dict[str, Any]
) -> None:
    data["a list"] = [1, 2, 3]
    with pytest.raises(TbeError, match=f"^E60038: {message}") as raised:
        tvm().placeholder(*arguments)
    assert raised.value.code == "E60038"


def test_a_placeholder_without_any_data_raises(fake_session: FakeSession) -> None:
    with install(fake_session, {}), pytest.raises(TbeError, match="none: the data is empty"):
        tvm().placeholder((1,), name="x")


@pytest.mark.usefixtures("installed")
def test_the_input_call_is_the_clients_own(
    fake_session: FakeSession, data: dict[str, Array]
) -> None:
    input_call(data)
    (call,) = fake_session.calls
    assert isinstance(call, Conv2dBackpropInput)
    assert (call.filters is data["filters"], call.out_backprop is data["out_backprop"]) == (1, 1)
    assert (call.filter_sizes, call.input_sizes) == (FILTER_SIZES, INPUT_SIZES)
    assert (call.para_dict, call.res_tensor) == (PARA_DICT, None)


@pytest.mark.usefixtures("installed")
def test_the_filter_call_is_the_clients_own(
    fake_session: FakeSession, data: dict[str, Array]
) -> None:
    filter_call(data)
    (call,) = fake_session.calls
    assert isinstance(call, Conv2dBackpropFilter)
    assert (call.input_x is data["fmap"], call.out_backprop is data["out_backprop"]) == (1, 1)
    assert (call.filter_sizes, call.para_dict) == (FILTER_SIZES, {"groups": 32})
    assert (call.raw, call.res_tensor) == (None, None)


@pytest.mark.usefixtures("installed")
def test_the_calls_take_the_vendors_order(data: dict[str, Array]) -> None:
    filters, out_backprop, fmap = (placeholder(name, data) for name in data)
    image = dsl().conv2d_backprop_input(filters, out_backprop, FILTER_SIZES, INPUT_SIZES, PARA_DICT)
    weight = dsl().conv2d_backprop_filter(fmap, out_backprop, FILTER_SIZES, {"groups": 32})
    assert (image.shape, weight.shape) == ((2, 2, 20, 16), (2, 6, 16, 16))


@pytest.mark.usefixtures("installed")
def test_the_input_gradient_has_height_and_width_in_one(data: dict[str, Array]) -> None:
    result = input_call(data)
    image = np.arange(2 * 2 * 5 * 4 * 16, dtype=np.float32).reshape(2, 2, 5, 4, 16)
    assert (result.shape, result.dtype) == ((2, 2, 20, 16), "float32")
    for height in range(5):
        for width in range(4):
            place = result.numpy()[:, :, height * 4 + width]
            np.testing.assert_array_equal(place, image[:, :, height, width])


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(("groups", "real_g"), [(32, 2), (1, 1), (None, 1)])
def test_the_weight_gradient_has_superblocks_first(
    groups: int | None, real_g: int, data: dict[str, Array]
) -> None:
    result = filter_call(data, para_dict={"groups": groups})
    rows = np.arange(12 * 16 * 16, dtype=np.float32).reshape(12, 16, 16)
    taps = 12 // real_g
    assert (result.shape, result.dtype) == ((real_g, taps, 16, 16), "float32")
    for superblock in range(real_g):
        expected = rows[superblock * taps : (superblock + 1) * taps]
        np.testing.assert_array_equal(result.numpy()[superblock], expected)


@pytest.mark.usefixtures("installed")
def test_the_weight_gradient_has_output_channels_in_one(
    fake_session: FakeSession, data: dict[str, Array]
) -> None:
    fractal = np.arange(2 * 3 * 16 * 16, dtype=np.float32).reshape(2, 3, 16, 16)
    fake_session.filter_shape = fractal.shape
    result = filter_call(data, filter_sizes=(48, 16, 2, 1), para_dict={})
    assert result.shape == (1, 2, 48, 16)
    for channel in range(48):
        expected = fractal[:, channel // 16, channel % 16]
        np.testing.assert_array_equal(result.numpy()[0, :, channel], expected)


@pytest.mark.usefixtures("installed")
def test_numpy_takes_a_result(data: dict[str, Array]) -> None:
    result = input_call(data)
    assert np.asarray(result) is result.numpy()
    assert np.asarray(result, dtype=np.float64).dtype == np.float64
    assert not np.shares_memory(np.array(result, copy=True), result.numpy())
    assert float(np.sum(result)) == result.numpy().sum()


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("parameter", ["filters", "out_backprop"])
def test_a_result_cannot_be_an_argument_of_another_call(
    parameter: str, fake_session: FakeSession, data: dict[str, Array]
) -> None:
    result = filter_call(data)
    message = (
        f"^E60038: {parameter} does not accept the result of dsl.conv2d_backprop_filter; "
        "it accepts a te"
    )
    with pytest.raises(TbeError, match=message):
        input_call(data, **{parameter: result})
    assert len(fake_session.calls) == 1


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("parameter", ["input_x", "out_backprop"])
def test_an_array_is_no_tensor(
    parameter: str, fake_session: FakeSession, data: dict[str, Array]
) -> None:
    with pytest.raises(
        TbeError, match=f"^E60038: {parameter} does not accept ndarray; it accepts a tensor of"
    ):
        filter_call(data, **{parameter: data["fmap"]})
    assert fake_session.calls == []


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("missing", list(PARA_DICT))
def test_the_input_call_has_no_defaults_for_three_keys(
    missing: str, fake_session: FakeSession, data: dict[str, Array]
) -> None:
    absent = {key: value for key, value in PARA_DICT.items() if key != missing}
    for para_dict in (absent, absent | {missing: None}):
        with pytest.raises(TypeError, match=f"para_dict lacks {missing}; .* has no default"):
            input_call(data, para_dict=para_dict)
    assert fake_session.calls == []


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("call", [input_call, filter_call])
@pytest.mark.parametrize("para_dict", [None, [("strides", [1, 1])]])
def test_para_dict_is_a_dict(call: Any, para_dict: Any, data: dict[str, Array]) -> None:
    with pytest.raises(TbeError, match=r"^E60038: para_dict does not accept .*; it accepts a dict"):
        call(data, para_dict=para_dict)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"filter_sizes": (32, 1, 3, 2.0)},
            r"filter_sizes does not accept \(32, 1, 3, 2.0\); it accepts a seq",
        ),
        (
            {"para_dict": {"strides": [1, "1"]}},
            r"para_dict.strides does not accept \[1, '1'\]; it accepts",
        ),
        (
            {"para_dict": {"padding": [0, 0, 0, None]}},
            r"para_dict.padding does not accept \[0, 0, 0, None\]",
        ),
        (
            {"para_dict": {"dilations": [1, 1, True, 1]}},
            r"para_dict.dilations does not accept \[1, 1, True",
        ),
    ],
)
@pytest.mark.parametrize(
    ("operator", "code"), [(Conv2dBackpropInput, "E65001"), (Conv2dBackpropFilter, "E64004")]
)
def test_an_entry_that_is_no_integer_has_the_vendors_code(
    operator: Any, code: str, arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(TbeError, match=f"^{code}: {message}") as raised:
        plain(call_of(operator, arguments))
    assert raised.value.code == raised.value.args[0]["errCode"] == code
    assert raised.value.parameter == message.partition(" ")[0]


@pytest.mark.parametrize("operator", [Conv2dBackpropInput, Conv2dBackpropFilter])
def test_a_value_that_is_no_list_has_the_code_of_any_wrong_argument(operator: Any) -> None:
    with pytest.raises(
        TbeError, match=r"^E60038: filter_sizes does not accept 32; it accepts a sequence"
    ):
        plain(call_of(operator, {"filter_sizes": 32}))


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("call", [input_call, filter_call])
def test_the_prototypes_name_counts_and_not_the_lists(call: Any, data: dict[str, Array]) -> None:
    with pytest.raises(TypeError, match="filter_size"):
        call(data, filter_size=FILTER_SIZES)


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("call", [input_call, filter_call])
def test_errors_of_the_session_pass_unchanged(
    call: Any, fake_session: FakeSession, data: dict[str, Array]
) -> None:
    fake_session.failure = TbeError("strides does not accept 0", code="E60011", parameter="strides")
    with pytest.raises(RuntimeError) as raised:
        call(data)
    assert raised.value is fake_session.failure
    assert raised.value.args[0]["errCode"] == "E60011"


def test_a_tensor_is_represented_in_one_line(data: dict[str, Array]) -> None:
    with install(FakeSession(), data):
        tensor = placeholder("filters", data)
    assert isinstance(tensor, Tensor)
    assert repr(tensor) == "Tensor(shape=(12, 1, 16, 16), dtype='float16', name='filters')"


def test_install_works_again_after_uninstall(data: dict[str, Array]) -> None:
    first, second = FakeSession(), FakeSession()
    for session in (first, second):
        with install(session, data):
            input_call(data)
    assert (len(first.calls), len(second.calls)) == (1, 1)


def test_names_bound_before_still_work_after_uninstall(
    fake_session: FakeSession, data: dict[str, Array]
) -> None:
    with install(fake_session, data):
        arguments = {
            "input_x": placeholder("fmap", data),
            "out_backprop": placeholder("out_backprop", data),
        }
        call = dsl().conv2d_backprop_filter
    call(**arguments, filter_sizes=FILTER_SIZES, para_dict={"groups": 32})
    assert len(fake_session.calls) == 1
