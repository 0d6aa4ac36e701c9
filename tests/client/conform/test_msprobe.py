"""Dumps of msprobe as suites: recorded inputs, reasons for the rest, hostile files."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from client.conform.dumps import (
    Array,
    Dump,
    call_of,
    convolution,
    write_archive,
    write_torch,
)
from opserve_client.cli_connection import ConnectionOptions
from opserve_client.conform import command_line
from opserve_client.conform.msprobe import dump as dump_module
from opserve_client.conform.msprobe import tensor_files
from opserve_client.conform.msprobe.dump import read_dump
from opserve_client.conform.msprobe.torch_files import read_torch_file
from opserve_client.conform.selection import suite_named
from opserve_client.conform.targets.target import InfrastructureError
from opserve_client.private_service import Addresses
from opserve_kernels.cases.arrays import arrays_of
from opserve_kernels.cases.case import Case, canonical
from opserve_kernels.cases.readers.read import Inexpressible
from opserve_kernels.cases.suite import read_suite, write_suite
from opserve_kernels.errors import InvalidArgument
from opserve_kernels.tensor import DataType

Capture = pytest.CaptureFixture[str]
FILE = "Functional.conv2d.0.forward.input.0.npy"
COLUMNS = np.arange(2 * 12 * 9, dtype=np.float32).reshape(2, 12, 9)
IMAGE = np.zeros((2, 3, 4, 4), np.float32)


Read = tuple[Case, dict[str, Array]]


def cases_in(folder: Path) -> dict[str, Read]:
    """The cases of a dump by operator, with their inputs as a target receives them."""
    found = read_dump(folder)
    assert found.unconverted == []
    read: dict[str, Read] = {}
    for case in found.cases.values():
        placed = arrays_of(case, 0, found.recorded(case))
        read[case.operator] = case, {name: placed[name].elements for name in case.inputs}
    assert len(read) == len(found.cases)
    return read


def gradients_in(folder: Path) -> Read:
    """The gradients of a dump of one convolution."""
    return cases_in(folder)["convolution_backward"]


def conform(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        command_line.main(arguments, ConnectionOptions(allow_plaintext=False))
    code = ended.value.code
    assert isinstance(code, int)
    return code


@pytest.mark.parametrize("suffix", [".npy", ".pt"])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_a_recorded_call_is_a_case_with_its_inputs(suffix: str, dtype: str, tmp_path: Path) -> None:
    dump = Dump(tmp_path / "step0/rank0", suffix)
    arrays = convolution(dump, dtype=dtype)
    dump.write()
    case, inputs = gradients_in(tmp_path)
    assert case.source == "step0/rank0 Functional.conv2d.0"
    assert (case.arguments["stride"], case.arguments["padding"]) == ((2, 2), (1, 1))
    assert case.arguments["output_mask"] == (True, True, False)
    assert {name: array.dtype.name for name, array in inputs.items()} == dict.fromkeys(
        arrays, dtype
    )
    for name, array in arrays.items():
        assert np.array_equal(inputs[name].view(np.uint8), array.view(np.uint8))


def test_a_recorded_convolution_is_a_case_of_its_result(tmp_path: Path) -> None:
    dump = Dump(tmp_path)
    numbers = np.random.default_rng(0)
    given = [numbers.normal(size=size).astype(np.float32) for size in ((2, 3, 6), (4, 3, 3), (4,))]
    result = np.zeros((2, 4, 2), np.float16)
    arguments = {"stride": 3, "padding": [1]}
    dump.record("Torch.conv1d.0.forward", input_args=given, input_kwargs=arguments, output=[result])
    dump.write()
    case, inputs = cases_in(tmp_path)["convolution"]
    assert (case.arguments["stride"], case.arguments["padding"]) == ((3,), (1,))
    assert case.arguments["transposed"] is False
    output = case.tensors["output"]
    assert (output.shape, output.dtype) == (result.shape, DataType.FLOAT16)
    for array, name in zip(given, ("input", "weight", "bias"), strict=True):
        assert np.array_equal(inputs[name], array)


def record_fold(dump: Dump) -> None:
    arguments = {"output_size": [4, 4], "kernel_size": 2}
    dump.record("Functional.fold.0.forward", input_args=[COLUMNS], input_kwargs=arguments)
    dump.record("Functional.fold.0.backward", input=[IMAGE], output=[])


def record_unfold(dump: Dump) -> None:
    dump.record("Functional.unfold.0.forward", input_args=[IMAGE, [2, 2]], input_kwargs={})
    dump.record("Functional.unfold.0.backward", input=[COLUMNS], output=[])


@pytest.mark.parametrize("record", [record_fold, record_unfold])
def test_folds_and_unfolds_are_the_gradients_of_each_other(
    record: Callable[[Dump], None], tmp_path: Path
) -> None:
    record(dump := Dump(tmp_path))
    dump.write()
    found = cases_in(tmp_path)
    assert set(found) == {"im2col", "im2col_backward"}
    case, inputs = found["im2col_backward"]
    assert case.tensors["out"].shape == IMAGE.shape
    assert np.array_equal(inputs["grad_output"], COLUMNS)
    case, inputs = found["im2col"]
    assert case.tensors["out"].shape == COLUMNS.shape
    assert np.array_equal(inputs["self"], IMAGE)


def test_a_convolution_of_times_is_a_case_of_its_result_and_its_gradients(tmp_path: Path) -> None:
    dump = Dump(tmp_path)
    numbers = np.random.default_rng(0)
    sizes = {"input": (9, 2, 4), "weight": (3, 4, 5), "bias": (5,), "self": (9, 2, 5)}
    arrays = {name: numbers.normal(size=size).astype(np.float32) for name, size in sizes.items()}
    given = [arrays[name] for name in ("input", "weight", "bias")]
    dump.record("Torch.conv_tbc.0.forward", input_args=given, input_kwargs={"pad": 1})
    dump.record("Torch.conv_tbc.0.backward", input=[arrays["self"]], output=[])
    dump.write()
    found = cases_in(tmp_path)
    assert set(found) == {"conv_tbc", "conv_tbc_backward"}
    _, inputs = found["conv_tbc"]
    assert np.array_equal(inputs["self"], arrays["input"])
    case, inputs = found["conv_tbc_backward"]
    assert case.arguments["pad"] == 1
    assert all(np.array_equal(inputs[name], array) for name, array in arrays.items())


@pytest.mark.parametrize(
    ("shapes", "reason"),
    [
        (((9, 2), (3, 4, 5), (5,)), "input does not accept the shape [9, 2]; it accepts 3 dim"),
        (((9, 2, 4), (3, 4, 5), (6,)), "bias does not accept the shape [6]; it accepts [5]."),
        (((9, 2, 3), (3, 4, 5), (5,)), "ascend910b rejects the call: "),
        (((1, 2, 4), (3, 4, 5), (5,)), "the shape [-1, 2, 5] is out of range"),
        (((9, 2, 0), (3, 0, 5), (5,)), "a tensor has no elements"),
    ],
)
def test_a_convolution_of_times_that_is_no_case_has_a_reason(
    shapes: tuple[tuple[int, ...], ...], reason: str, tmp_path: Path
) -> None:
    dump = Dump(tmp_path)
    given = [np.zeros(shape, np.float32) for shape in shapes]
    dump.record("Torch.conv_tbc.0.forward", input_args=given, input_kwargs={})
    dump.write()
    (found,) = read_dump(tmp_path).unconverted
    assert found.startswith(f"Torch.conv_tbc.0: {reason}")


def arguments_of(function: str) -> tuple[list[object], list[Array]]:
    """Arguments of a function, and its output gradients: a transposed convolution by 2."""
    image, weight = np.ones((1, 4, 3, 3), np.float32), np.ones((4, 1, 2, 2), np.float32)
    gradient = np.ones((1, 2, 6, 6), np.float32)
    two, none, one = [2, 2], [0, 0], [1, 1]
    found: dict[str, list[object]] = {
        "Functional.conv_transpose2d": [image, weight, None, 2, 0, 0, 2, 1],
        "NPU.npu_conv_transpose2d": [image, weight, None, none, none, two, one, 2],
        "Torch.convolution": [image, weight, None, two, none, one, True, none, 2],
        "Aten.convolution_backward": [
            *(gradient, image, weight, None, two, none, one, True, none, 2),
            [True, True, False],
        ],
    }
    return found[function], [gradient]


def test_every_function_of_a_convolution_gives_the_same_cases(tmp_path: Path) -> None:
    dump = Dump(tmp_path)
    functions = [
        *("Functional.conv_transpose2d", "NPU.npu_conv_transpose2d"),
        *("Torch.convolution", "Aten.convolution_backward"),
    ]
    for function in functions:
        arguments, gradients = arguments_of(function)
        dump.record(f"{function}.7.forward", input_args=arguments, input_kwargs={})
        dump.record(f"{function}.7.backward", input=gradients, output=[])
    dump.write()
    result, _ = cases_in(tmp_path)["convolution"]
    assert (result.arguments["transposed"], result.arguments["groups"]) == (True, 2)
    case, _ = gradients_in(tmp_path)
    assert case.source == "Functional.conv_transpose2d.7"
    assert (case.arguments["transposed"], case.arguments["groups"]) == (True, 2)
    assert case.arguments["output_mask"] == (True, True, False)


def test_calls_of_other_functions_are_counted(tmp_path: Path, capsys: Capture) -> None:
    dump = Dump(tmp_path)
    convolution(dump)
    for number in range(3):
        dump.record(f"Functional.relu.{number}.forward", input_args=[], input_kwargs={})
        dump.record(f"Functional.relu.{number}.backward", input=[], output=[])
    dump.write()
    assert len(suite_named(f"msprobe:{tmp_path}", 0).cases) == 2
    assert capsys.readouterr().err == f"{tmp_path}, 3 calls of other functions are left out\n"


def test_a_dump_of_modules_names_the_level_that_is_needed(tmp_path: Path, capsys: Capture) -> None:
    dump = Dump(tmp_path)
    dump.record("Module.conv1.Conv2d.forward.0", input_args=[IMAGE], input_kwargs={})
    dump.write()
    with pytest.raises(InfrastructureError, match="nothing can be converted"):
        suite_named(f"msprobe:{tmp_path}", 0)
    assert "1 records of convolution modules have no stride and padding" in capsys.readouterr().err


def unconverted(dump: Dump) -> str:
    """The reason why the gradients of the convolution of a dump are no case."""
    dump.write()
    found = read_dump(dump.folder)
    assert {case.operator for case in found.cases.values()} <= {"convolution"}
    *_, reason = found.unconverted
    return reason.removeprefix("Functional.conv2d.0: ")


def test_a_call_without_its_backward_record_is_a_case_of_its_result(tmp_path: Path) -> None:
    convolution(dump := Dump(tmp_path))
    del dump.data["Functional.conv2d.0.backward"]
    dump.write()
    assert set(cases_in(tmp_path)) == {"convolution"}


def test_a_call_without_its_forward_record_is_no_case(tmp_path: Path) -> None:
    convolution(dump := Dump(tmp_path))
    del dump.data["Functional.conv2d.0.forward"]
    assert unconverted(dump).startswith("the dump has no record of the forward call")


@pytest.mark.parametrize(
    ("member", "value", "reason"),
    [
        ("data_name", None, "input: the dump has statistics only; record it with task tensor"),
        ("data_name", "../../key.npy", "'../../key.npy': the file is outside of the folder"),
        ("data_name", "/etc/passwd", "'/etc/passwd': the file is outside of the folder"),
        ("data_name", "gone.npy", "gone.npy: the file is missing"),
        ("data_name", "gone.bin", "gone.bin: the file is missing"),
        ("dtype", "torch.float16", "float32 [2, 3, 6, 6], dump.json states float16 [2, 3, 6, 6]"),
        (
            "dtype",
            "torch.int8",
            "dtype does not accept 'int8'; it accepts float32, float16, bfloat16, float64.",
        ),
        (
            "shape",
            [2, 5, 6, 6],
            "groups does not accept 1 for 5 channels; it accepts those of [4, 3, 3, 3].",
        ),
        (
            "shape",
            [2, 3, 8, 6],
            "grad_output does not accept the shape [2, 4, 3, 3]; it accepts [2, 4, 4, 3].",
        ),
        ("shape", "many", "an entry of dump.json is malformed"),
    ],
)
def test_a_record_that_is_no_case_has_a_reason(
    member: str, value: object, reason: str, tmp_path: Path
) -> None:
    convolution(dump := Dump(tmp_path))
    dump.data["Functional.conv2d.0.forward"]["input_args"][0][member] = value
    assert unconverted(dump).endswith(reason)


def test_a_link_does_not_lead_out_of_the_folder(tmp_path: Path) -> None:
    convolution(dump := Dump(tmp_path / "dump"))
    path = dump.folder / "dump_tensor_data" / FILE
    path.rename(tmp_path / "outside.npy")
    path.symlink_to(tmp_path / "outside.npy")
    assert unconverted(dump) == f"'{FILE}': the file is outside of the folder"


def test_nothing_is_unpickled(tmp_path: Path) -> None:
    convolution(dump := Dump(tmp_path, ".pt"))
    path = dump.folder / "dump_tensor_data" / FILE.replace(".npy", ".pt")
    marker = tmp_path / "was-run"
    write_archive(path, call_of("os\nmkdir", str(marker)))
    assert unconverted(dump).endswith(": the file has another object than a tensor")
    convolution(dump := Dump(tmp_path / "other"))
    objects = np.array([{"an": "object"}], dtype=object)
    np.save(dump.folder / "dump_tensor_data" / FILE, objects, allow_pickle=True)
    assert unconverted(dump).endswith(": the file is no .npy file of numbers")
    assert not marker.exists()


@pytest.mark.parametrize(
    ("written", "reason"),
    [
        (b"no archive", "the file is no archive of torch.save"),
        (b"", "the file is no archive of torch.save"),
    ],
)
def test_a_file_that_is_no_archive_has_a_reason(
    written: bytes, reason: str, tmp_path: Path
) -> None:
    convolution(dump := Dump(tmp_path, ".pt"))
    (dump.folder / "dump_tensor_data" / FILE.replace(".npy", ".pt")).write_bytes(written)
    assert unconverted(dump).endswith(reason)


@pytest.mark.parametrize(
    ("description", "reason"),
    [
        (b"]", "more than one tensor: operation EMPTY_LIST"),
        (b")", "the file has no tensor"),
        (b"t", "the description of the tensor is damaged"),
        (b"(((", "the description of the tensor is damaged"),
        (b"ctorch._utils\n_rebuild_tensor_v2\n)R", "another object than a tensor"),
        (b"ctorch._utils\n_rebuild_tensor_v2\n(K\x00K\x00))tR", "the tensor has no storage"),
        (b"ctorch._utils\n_rebuild_tensor_v2\n()QK\x00))tR", "another dtype than FLOAT, FLOAT16"),
        (b"ctorch._utils\n_rebuild_tensor_v2\n()QK\x00)K\x01\x85tR", "other strides than sizes"),
    ],
)
def test_a_damaged_description_has_a_reason(
    description: bytes, reason: str, tmp_path: Path
) -> None:
    write_archive(tmp_path / "one.pt", description)
    with pytest.raises(Inexpressible, match=reason):
        read_torch_file(tmp_path / "one.pt", bytes_limit=1 << 20)


def test_a_tensor_of_the_device_is_read_in_a_plain_format_only(tmp_path: Path) -> None:
    plain, private = tmp_path / "plain.pt", tmp_path / "private.pt"
    write_torch(plain, IMAGE, npu_format=2)
    write_torch(private, IMAGE, npu_format=3)
    assert read_torch_file(plain, bytes_limit=1 << 20).shape == IMAGE.shape
    with pytest.raises(Inexpressible, match="a format of the device's own"):
        read_torch_file(private, bytes_limit=1 << 20)
    with pytest.raises(Inexpressible, match="384 bytes, at most 100 are read"):
        read_torch_file(plain, bytes_limit=100)


def test_a_tensor_lies_in_its_storage(tmp_path: Path) -> None:
    path = tmp_path / "one.pt"
    write_torch(path, IMAGE, held=IMAGE.tobytes()[:-4])
    with pytest.raises(Inexpressible, match="the tensor is larger than its storage"):
        read_torch_file(path, bytes_limit=1 << 20)
    write_torch(path, np.broadcast_to(np.float32(1), (1 << 15, 1 << 15)), held=b"1234")
    with pytest.raises(Inexpressible, match="the tensor is larger than its storage"):
        read_torch_file(path, bytes_limit=1 << 20)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[", "dump.json: the file is no JSON"),
        ("[]", "dump.json: the member data is no object"),
        ('{"data": 1}', "dump.json: the member data is no object"),
        (None, "no dump.json in the folder or its folders step"),
    ],
)
def test_a_folder_without_a_dump_ends_with_2(
    text: str | None, reason: str, tmp_path: Path, capsys: Capture
) -> None:
    if text is not None:
        (tmp_path / "dump.json").write_text(text)
    assert conform("cases", "--suite", f"msprobe:{tmp_path}") == 2
    assert reason in capsys.readouterr().err


def test_limits_bound_files_and_calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dump = Dump(tmp_path)
    for number in range(2):
        convolution(dump, number)
    dump.write()
    with monkeypatch.context() as patch:
        patch.setattr(tensor_files, "FILE_BYTES_LIMIT", 300)
        assert len(read_dump(tmp_path).unconverted) == 4
    with monkeypatch.context() as patch:
        patch.setattr(dump_module, "CASES_LIMIT", 2)
        found = read_dump(tmp_path)
        assert len(found.cases) == 2
        assert found.unconverted == ["Functional.conv2d.1: a dump has at most 2 cases"]
    monkeypatch.setattr(dump_module, "DUMP_BYTES_LIMIT", 10)
    with pytest.raises(Inexpressible, match=r"dump\.json: the file is larger than 10 bytes"):
        read_dump(tmp_path)


def test_a_file_that_changes_after_the_start_ends_the_run(tmp_path: Path) -> None:
    arrays = convolution(dump := Dump(tmp_path))
    dump.write()
    suite = suite_named(f"msprobe:{tmp_path}", 0)
    np.save(tmp_path / "dump_tensor_data" / FILE, arrays["input"] + 1)
    with pytest.raises(InfrastructureError, match="the file changed after the start"):
        suite.recorded(suite.cases[0])


def test_recorded_inputs_are_no_definition(tmp_path: Path) -> None:
    convolution(dump := Dump(tmp_path))
    dump.write()
    suite = suite_named(f"msprobe:{tmp_path}", 0)
    with pytest.raises(
        InvalidArgument, match=r"fill\.kind does not accept recorded; it accepts integer, "
    ):
        read_suite(write_suite(suite))
    with pytest.raises(InvalidArgument, match="input does not accept a fill without its recording"):
        arrays_of(suite.cases[0], 0)
    form = json.loads(canonical(suite.cases[0].to_json()))
    assert form["tensors"]["input"]["fill"]["kind"] == "recorded"


def test_a_dump_runs_and_a_case_of_it_runs_again(
    service: Addresses, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    dump = Dump(tmp_path / "dump", ".pt")
    arrays = convolution(dump)
    convolution(dump, 1, dtype="bfloat16")
    dump.write()
    options = ("--suite", f"msprobe:{dump.folder}", "--server", service.grpc)
    target = ("--target", f"opserve:{service.grpc}")
    assert conform("run", *options, *target, "--jobs", "1", "--folder", str(tmp_path / "run")) == 0
    assert "on msprobe:dump, seed 0: 4 cases: 4 passed" in capsys.readouterr().out
    cases = suite_named(f"msprobe:{dump.folder}", 0).cases
    case = next(case for case in cases if case.operator == "convolution_backward")
    assert conform("repro", *options, *target, "--case", case.id) == 0
    assert conform("compare", str(tmp_path / "run"), str(tmp_path / "run")) == 0
    assert conform("cases", *options[:2], "--inputs", str(tmp_path / "inputs")) == 0
    with np.load(tmp_path / "inputs" / f"{case.id}.npz") as inputs:
        assert all(np.array_equal(inputs[name], array) for name, array in arrays.items())
