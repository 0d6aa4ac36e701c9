"""ONNX's test folders: every stored one is read, and our kernels meet its results."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from contract.corpora import cases, stored_arrays
from kernels.cases.runs import Array, run
from opserve_client.conform.onnx_calls import GivenCase, check_given
from opserve_client.conform.onnx_folders import ELEMENTS_LIMIT, Folders, read_folders
from opserve_kernels.cases.arrays import arrays_of
from opserve_kernels.verdict.verdict import Status

IMAGE = np.arange(18, dtype=np.float32).reshape(1, 2, 3, 3)
TAPS = np.ones((2, 1, 2, 2), np.float32)
FOLDED = np.arange(12, dtype=np.float32).reshape(1, 4, 3)


def write_folder(
    folder: Path,
    operator: str,
    inputs: Mapping[str, Array],
    output: Array,
    attributes: Mapping[str, Any],
) -> Path:
    """A folder as ONNX's backend tests have it."""
    (folder / "test_data_set_0").mkdir(parents=True)
    node = helper.make_node(operator, list(inputs), ["Y"], **attributes)
    values = [
        helper.make_tensor_value_info(
            name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape
        )
        for name, array in {**inputs, "Y": output}.items()
    ]
    graph = helper.make_graph([node], "test", values[:-1], values[-1:])
    (folder / "model.onnx").write_bytes(helper.make_model(graph).SerializeToString())
    for place, array in enumerate(inputs.values()):
        write_tensor(folder, f"input_{place}", array)
    write_tensor(folder, "output_0", output)
    return folder


def write_tensor(folder: Path, name: str, array: Array) -> None:
    path = folder / "test_data_set_0" / f"{name}.pb"
    path.write_bytes(numpy_helper.from_array(array, name).SerializeToString())


def outputs_of(given: GivenCase) -> dict[str, Array]:
    """The outcome of our kernels on a case."""
    placed = arrays_of(given.case, 0)
    for name, operand in given.operands.items():
        placed[name].elements[...] = operand
    run(given.case, placed)
    return {name: placed[name].elements for name in given.case.written}


def complaints(given: GivenCase, outputs: Mapping[str, Array]) -> list[str]:
    checks = check_given(given, outputs)
    return [check.reason for check in checks if check.status is not Status.PASSED]


def stored_folders(root: Path) -> list[dict[str, Any]]:
    """Makes a folder of each stored case."""
    rows = cases("onnx_nodes")
    for row in rows:
        arrays = stored_arrays(row)
        output = arrays.pop("Y")
        sizes: dict[str, Array] = {
            name: np.array(row[name]) for name in ("image_shape", "block_shape") if name in row
        }
        order: dict[str, Array] = {
            name: arrays[name] for name in ("X", "W", "B") if name in arrays
        } | sizes
        write_folder(root / row["case_id"], row["op"], order, output, row["attrs"])
    return rows


def test_every_stored_folder_is_read_and_our_kernels_do_what_it_says(tmp_path: Path) -> None:
    rows = stored_folders(tmp_path)

    found = read_folders(tmp_path)

    assert [(left.name.partition("/")[0], left.reason) for left in found.unconverted] == [
        ("onnx-node-test_col2im_5d-0", "image_shape does not accept 3 dimensions; it accepts 2.")
    ]
    named = Counter(given.name.partition("/")[0] for given in found.cases)
    assert set(named) == {row["case_id"] for row in rows} - {"onnx-node-test_col2im_5d-0"}
    assert [text for given in found.cases for text in complaints(given, outputs_of(given))] == []


def test_every_stored_folder_accuses_a_kernel_that_is_a_little_wrong(tmp_path: Path) -> None:
    stored_folders(tmp_path)

    for given in read_folders(tmp_path).cases:
        outputs = {name: array * 1.01 for name, array in outputs_of(given).items()}
        assert len(complaints(given, outputs)) == len(given.outputs) + len(given.products)


def conv(root: Path, **attributes: Any) -> Path:
    result = np.zeros((1, 2, 2, 2), np.float32)
    return write_folder(root / "conv", "Conv", {"X": IMAGE, "W": TAPS}, result, attributes)


def reasons(found: Folders) -> list[str]:
    assert found.cases == ()
    return [left.reason for left in found.unconverted]


def test_a_transposed_convolution_is_a_data_gradient_less_its_bias(tmp_path: Path) -> None:
    result = np.full((1, 2, 4, 4), 5, np.float32)
    inputs = {"X": IMAGE, "W": TAPS, "B": np.array([1, 2], np.float32)}
    folder = write_folder(tmp_path, "ConvTranspose", inputs, result, {"group": 2})

    (given,) = read_folders(folder, profile="reference").cases

    assert (given.case.operator, given.case.profile) == ("convolution_backward", "reference")
    assert given.case.written == ("grad_input",)
    np.testing.assert_array_equal(given.operands["grad_output"], IMAGE)
    assert given.outputs["grad_input"][0, :, 0, 0].tolist() == [4, 3]


def test_wrong_sums_and_lost_elements_are_reported() -> None:
    """A NaN is no agreement."""
    given = GivenCase(
        name="x",
        case=None,  # type: ignore[arg-type]  # not looked at
        operands={"input": np.array([2.0])},
        outputs={"out": np.array([1.0, 1.0])},
        products={"grad_input": ("input", 6.0)},
    )
    outputs = {"out": np.array([1.0005, np.nan]), "grad_input": np.array([np.nan])}

    assert complaints(given, outputs) == [
        "out: 1 of 2 elements differ from ONNX's",
        "grad_input: <grad_input, input> is nan, ONNX's is 6.0",
    ]


@pytest.mark.parametrize(
    ("attributes", "reason"),
    [
        ({"group": 2, "strides": [1]}, "strides does not accept (1,); it accepts 2 integers"),
        ({"group": 2, "strides": [0, 1]}, "strides, dilations or group: must be at least 1"),
        (
            {"group": 2, "pads": [-1, 0, 0, 0]},
            "pads does not accept (-1, 0, 0, 0); it accepts numbers of at least 0",
        ),
        ({"group": 2, "pads": [5, 5, 5, 5]}, "pads: no supported padding leads"),
        ({"group": 3}, "pads: no supported padding leads"),
        ({"alpha": 1.5}, "alpha does not accept another attribute; it accepts integers and texts"),
    ],
)
def test_calls_that_no_operator_computes_are_reported(
    tmp_path: Path, attributes: Mapping[str, Any], reason: str
) -> None:
    (reason_given,) = reasons(read_folders(conv(tmp_path, **attributes)))
    assert reason_given.startswith(reason)


def test_other_nodes_are_reported(tmp_path: Path) -> None:
    folder = write_folder(tmp_path, "Relu", {"X": IMAGE}, IMAGE, {})
    assert reasons(read_folders(folder)) == [
        "operator does not accept Relu; it accepts Conv, ConvTranspose, Col2Im."
    ]


def test_data_in_another_file_are_not_read(tmp_path: Path) -> None:
    folder = conv(tmp_path, group=2)
    secret = tmp_path / "secret"
    secret.write_bytes(IMAGE.tobytes())
    tensor = TensorProto(dims=IMAGE.shape, data_type=TensorProto.FLOAT, name="X")
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="../../secret")
    (folder / "test_data_set_0" / "input_0.pb").write_bytes(tensor.SerializeToString())

    (reason_given,) = reasons(read_folders(folder))

    assert reason_given == (
        "input_0.pb does not accept data in another file; it accepts data in this file."
    )


@pytest.mark.parametrize(
    ("dims", "reason"),
    [
        ((ELEMENTS_LIMIT, 2), f"at most {ELEMENTS_LIMIT} elements"),
        ((-1, 2), f"at most {ELEMENTS_LIMIT} elements"),
        ((3, 3), "input_0.pb: the data do not fit the shape and dtype"),
    ],
)
def test_tensors_that_are_too_large_or_incomplete_are_reported(
    tmp_path: Path, dims: Sequence[int], reason: str
) -> None:
    folder = conv(tmp_path, group=2)
    tensor = TensorProto(dims=dims, data_type=TensorProto.FLOAT, raw_data=b"1234")
    (folder / "test_data_set_0" / "input_0.pb").write_bytes(tensor.SerializeToString())

    (reason_given,) = reasons(read_folders(folder))

    assert reason in reason_given


def test_missing_files_and_files_that_are_no_messages_are_reported(tmp_path: Path) -> None:
    folder = conv(tmp_path, group=2)
    (folder / "test_data_set_0" / "output_0.pb").write_bytes(b"\xff\xff")
    assert reasons(read_folders(tmp_path)) == ["a file is no message of ONNX"]
    (folder / "test_data_set_0" / "output_0.pb").unlink()
    assert reasons(read_folders(tmp_path)) == ["output_0.pb: the file is missing"]
    (folder / "test_data_set_0").rename(tmp_path / "elsewhere")
    assert reasons(read_folders(tmp_path)) == ["the folder has no test_data_set_0"]
