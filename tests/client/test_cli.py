"""The command line, against a fake service."""

import json
import os
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from typer.testing import CliRunner, Result

from client.fake_service import FakeService, refusal
from client.samples import Array, numbers
from opserve.v1 import tensor_pb2
from opserve.v1.operator_description_pb2 import (
    ErrorDescription,
    LimitDescription,
    OperatorDescription,
    ParameterDescription,
    SupportDescription,
)
from opserve_client import Client, TlsFiles, cli, cli_connection
from opserve_client.transports import MemoryTransport

Capture = pytest.CaptureFixture[str]
ARGUMENTS: dict[str, Any] = {
    "grad_output": {"array": "dy"},
    "input_size": [2, 3],
    "kernel_size": [1, 1],
    "dilation": [1, 1],
    "padding": [0, 0],
    "stride": [1, 1],
}


@pytest.fixture(autouse=True)
def memory(fake: FakeService, monkeypatch: pytest.MonkeyPatch) -> None:
    def client(_: str, **__: object) -> Client:
        return Client(transport=MemoryTransport(fake))

    monkeypatch.setattr(cli_connection, "Client", client)


def invoke(*arguments: str | Path) -> Result:
    return CliRunner().invoke(cli.app, [str(argument) for argument in arguments])


def files(folder: Path, arguments: dict[str, Any], **arrays: Array) -> tuple[Path, Path, Path]:
    (folder / "args.json").write_text(json.dumps({"arguments": arguments}))
    np.savez(folder / "in.npz", allow_pickle=True, **arrays)
    return folder / "args.json", folder / "in.npz", folder / "out.npz"


def test_version() -> None:
    assert invoke("--version").stdout.startswith("opserve ")


def test_devices_are_listed() -> None:
    result = invoke("devices")
    assert result.exit_code == 0
    assert "ascend910b-0" in result.stdout


def test_operators_have_a_line_each_at_80_columns(
    fake: FakeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    fake.operators = ["aclnnConvolutionBackward", "aclnnIm2colBackward"]
    lines = invoke("devices").stdout.splitlines()
    assert [line.split()[-1] for line in lines[-2:]] == fake.operators
    assert "ascend910b-0 ascend910b yes" in " ".join(lines[-2].split())
    assert max(map(len, lines)) <= 80


def test_hosts_are_whole_at_80_columns(fake: FakeService, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    fake.host, fake.operators = "a-laboratory-1", ["aclnnConvolutionBackward"]
    lines = invoke("devices").stdout.splitlines()
    assert [fake.host, "ascend910b-0"] in [line.split()[:2] for line in lines]
    assert max(map(len, lines)) <= 80


LONG_NAME = "aclnn" + "Very" * 20 + "LongBackward"
DESCRIBED = (
    OperatorDescription(
        name="very_long_backward",
        call=LONG_NAME,
        family="aclnn",
        revision=3,
        parameters=[
            ParameterDescription(name="out", kind="tensor", written=True, description="Shape [n]."),
            ParameterDescription(
                name="para_dict",
                kind="members",
                description="A dict.",
                members=[ParameterDescription(name="pads", kind="integers", description="Zeros.")],
            ),
        ],
        support=[
            SupportDescription(
                profile="ascend910b",
                dtypes=[tensor_pb2.DATA_TYPE_FLOAT, tensor_pb2.DATA_TYPE_BF16],
                source_only=[tensor_pb2.DATA_TYPE_BF16],
                notes="results FLOAT",
            )
        ],
        limits=[
            LimitDescription(
                parameter="pads", where="rows", least=0, most=255, profiles=["reference"]
            ),
            LimitDescription(parameter="out", least=1),
        ],
        errors=[
            ErrorDescription(code=161001, reason="NULLPTR", parameter="out", broken="missing"),
            ErrorDescription(code=161001, reason="NULLPTR", parameter="pads", broken="missing"),
            ErrorDescription(code=60011, reason="E60011", parameter="out", broken="not [group, 2]"),
        ],
    ),
    OperatorDescription(
        name="plain",
        call="plain",
        family="tbe",
        support=[SupportDescription(profile="ascend310", dtypes=[tensor_pb2.DATA_TYPE_FLOAT16])],
    ),
)


def shown(*arguments: str) -> list[str]:
    """The lines of `opserve operators`, without the spaces of the layout."""
    result = invoke("operators", *arguments)
    assert result.exit_code == 0, result.output
    return [" ".join(line.split()) for line in result.stdout.splitlines()]


@pytest.mark.parametrize("columns", ["40", "80", "120"])
def test_operators_are_shown_with_whole_names_and_marks_of_the_source(
    fake: FakeService, monkeypatch: pytest.MonkeyPatch, columns: str
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    fake.described = list(DESCRIBED)
    lines = shown()
    assert f"{LONG_NAME} (very_long_backward)" in lines
    assert "plain" in lines
    output = " ".join(lines)
    assert "ascend910b FLOAT, BF16*" in output
    assert "ascend310 FLOAT16" in output
    assert output.endswith("* only in the vendor's newer source, not on its page.")


def test_without_such_dtypes_the_footnote_is_left_out(fake: FakeService) -> None:
    fake.described = [DESCRIBED[1]]
    assert shown() == ["plain", "ascend310 FLOAT16"]


def test_one_operator_is_shown_in_full(fake: FakeService, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    fake.described = list(DESCRIBED)
    assert shown(LONG_NAME) == [
        f"{LONG_NAME} (very_long_backward)",
        "family aclnn, revision 3 of its contract",
        *("", "parameters"),
        "out tensor, written Shape [n].",
        "para_dict members A dict.",
        "pads integers Zeros.",
        *("", "profiles", "ascend910b FLOAT, BF16* results FLOAT"),
        *("", "limits", "pads 0 to 255 rows; on reference", "out 1 or more"),
        *("", "errors", "161001 out, pads: missing", "E60011 out: not [group, 2]"),
        *("", "codes", "161001 NULLPTR"),
        *("", "* only in the vendor's newer source, not on its page."),
    ]


def test_run_takes_files_and_writes_a_file(tmp_path: Path) -> None:
    columns = numbers(4, 6)
    arguments, arrays, output = files(tmp_path, ARGUMENTS, dy=columns)
    result = invoke("run", "aclnnIm2colBackward", arguments, arrays, "-o", output)
    assert result.exit_code == 0, result.output
    with np.load(output) as written:
        np.testing.assert_array_equal(written["out"], columns.reshape(4, 2, 3))
    assert "FLOAT" in result.stdout


def test_run_takes_one_npy(tmp_path: Path) -> None:
    np.save(tmp_path / "in.npy", numbers(4, 6))
    given = ARGUMENTS | {"grad_output": {"array": "tensor"}}
    arguments, _, output = files(tmp_path, given)
    result = invoke("run", "aclnnIm2colBackward", arguments, tmp_path / "in.npy", "-o", output)
    assert result.exit_code == 0, result.output


@pytest.mark.parametrize("dtype", ["BF16", "bfloat16"])
def test_bf16_travels_as_uint16_both_ways(tmp_path: Path, dtype: str) -> None:
    columns = numbers(4, 6, dtype=ml_dtypes.bfloat16)
    given = ARGUMENTS | {"grad_output": {"array": "dy", "dtype": dtype, "format": "ND"}}
    arguments, arrays, output = files(tmp_path, given, dy=columns.view(np.uint16))
    result = invoke("run", "aclnnIm2colBackward", arguments, arrays, "-o", output)
    assert result.exit_code == 0, result.output
    with np.load(output) as written:
        assert written["out"].dtype == np.uint16
        np.testing.assert_array_equal(
            written["out"].view(ml_dtypes.bfloat16), columns.reshape(4, 2, 3)
        )
    assert "BF16" in result.stdout


@pytest.mark.parametrize("wish", [{"dtype": "FLOAT16"}, {"dtype": "FLOAT16", "format": "NCHW"}])
def test_an_output_may_be_chosen(tmp_path: Path, wish: dict[str, str]) -> None:
    arguments, arrays, output = files(tmp_path, ARGUMENTS | {"out": wish}, dy=numbers(4, 6))
    result = invoke("run", "aclnnIm2colBackward", arguments, arrays, "-o", output)
    assert result.exit_code == 0, result.output
    with np.load(output) as written:
        assert written["out"].dtype == np.float16


def failure(monkeypatch: pytest.MonkeyPatch, capsys: Capture, *arguments: str | Path) -> str:
    """Runs the command as a process would; returns its one line on standard error."""
    monkeypatch.setattr(sys, "argv", ["opserve", *map(str, arguments)])
    with pytest.raises(SystemExit) as exited:
        cli.main()
    assert exited.value.code == 1
    text = capsys.readouterr().err
    assert text.count("\n") == 1
    return text


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"grad_output": {"array": "nope"}},
            "grad_output.array does not accept nope; it accepts dy",
        ),
        (
            {"grad_output": {"arry": "dy"}},
            "arguments.grad_output does not accept arry; it accepts array, dtype, format",
        ),
        (
            {"grad_output": {"array": "dy", "dtype": "BF16"}},
            "grad_output.dtype does not accept BF16",
        ),
        (
            {"grad_output": {"array": "dy", "dtype": "HALF"}},
            "grad_output.dtype does not accept HALF; it accepts",
        ),
        (
            {"grad_output": {"array": "dy", "dtype": "f4"}},
            "grad_output.dtype does not accept f4; it accepts",
        ),
        ({"grad_output": 5}, "arguments.grad_output does not accept 5; it accepts an object"),
        (
            {"grad_output": {"array": 5}},
            "arguments.grad_output.array does not accept 5; it accepts a text",
        ),
        ({"grad_output": {"dtype": "FLOAT"}}, "grad_output does not accept"),
        (
            {"stride": "1"},
            "161002 ACLNN_ERR_PARAM_INVALID: stride does not accept '1'; it accepts a sequence",
        ),
        ({"stride": "11"}, "stride does not accept '11'"),
        ({"input_size": {"0": 1}}, "input_size does not accept {'0': 1}"),
        ({"kernel_size": [1.0, 1]}, "kernel_size does not accept [1.0, 1]"),
        ({"kernel_size": [2**63, 1]}, "kernel_size does not accept [9223372036854775808, 1]"),
        ({"strides": [1]}, "arguments does not accept strides; it accepts grad_output, input_size"),
    ],
)
def test_arguments_that_make_no_call(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Capture,
    change: dict[str, Any],
    message: str,
) -> None:
    arguments, arrays, output = files(tmp_path, ARGUMENTS | change, dy=numbers(4, 6))
    text = failure(
        monkeypatch, capsys, "run", "aclnnIm2colBackward", arguments, arrays, "-o", output
    )
    assert message in text
    assert not output.exists()


@pytest.mark.parametrize(
    ("call", "arguments", "name", "shape"),
    [
        (
            "conv2d_backprop_filter",
            {
                "input_x": {"array": "x"},
                "out_backprop": {"array": "x"},
                "filter_sizes": [32, 4, 1, 1],
                "para_dict": {"groups": 4, "padding": [0, 0, 0, 0]},
                "raw": True,
            },
            "res_tensor",
            (1, 2, 16, 16),
        ),
        (
            "deconv_grad_filter",
            {
                "dy_data": {"array": "dy"},
                "x_data": {"array": "dy"},
                "kernel_h": 2,
                "kernel_w": 1,
                "group": 1,
                "row_order": "oc_kh_kw",
            },
            "dw_data",
            (1, 6, 3),
        ),
    ],
)
def test_operators_of_every_family_run_by_the_vendors_name(
    tmp_path: Path, call: str, arguments: dict[str, Any], name: str, shape: tuple[int, ...]
) -> None:
    arrays = {"x": numbers(1, 1, 2, 2, 16, dtype=np.float16), "dy": numbers(1, 2, 2, 3)}
    args, tensors, output = files(tmp_path, arguments, **arrays)
    result = invoke("run", call, args, tensors, "-o", output)
    assert result.exit_code == 0, result.output
    with np.load(output) as written:
        assert written[name].shape == shape


FUNCTION = "hp_deconv_grad_filter_s"
DECONVOLUTION: dict[str, Any] = {
    "dy_data": {"array": "dy"},
    "x_data": {"array": "dy"},
    "kernel_h": 2,
    "kernel_w": 1,
    "core_mask": 1,
}


@pytest.mark.parametrize("number", ["fp", "hp"])
@pytest.mark.parametrize("place", ["s", "p"])
def test_a_function_of_ft_dsp_runs_by_its_name(
    tmp_path: Path, fake: FakeService, number: str, place: str
) -> None:
    function = f"{number}_deconv_grad_filter_{place}"
    args, tensors, output = files(tmp_path, DECONVOLUTION, dy=numbers(1, 2, 2, 3))
    result = invoke("run", function, args, tensors, "-o", output)
    assert result.exit_code == 0, result.output
    assert fake.planned.deconv_grad_filter.function == function


def test_a_function_that_is_named_twice_is_named_alike(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    given = DECONVOLUTION | {"function": FUNCTION}
    args, tensors, output = files(tmp_path, given, dy=numbers(1, 2, 2, 3))
    assert invoke("run", FUNCTION, args, tensors, "-o", output).exit_code == 0
    other = FUNCTION.replace("hp", "fp")
    text = failure(monkeypatch, capsys, "run", other, args, tensors, "-o", output)
    assert f"arguments.function does not accept {FUNCTION}; it accepts {other}, or none" in text


def test_a_refusal_of_the_service_is_one_line(
    tmp_path: Path, fake: FakeService, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    fake.failures["get_workspace_size"] = [refusal(161002, "stride", 0)]
    arguments, arrays, output = files(tmp_path, ARGUMENTS, dy=numbers(4, 6))
    command = ("run", "aclnnIm2colBackward", arguments, arrays, "-o", output)
    assert "161002 FAKE: stride does not accept 0" in failure(monkeypatch, capsys, *command)


@pytest.mark.parametrize("text", ["", "[]", '{"arguments": {}, "more": 1}', '{"profile": "x"}'])
def test_an_args_file_that_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture, text: str
) -> None:
    arguments, arrays, output = files(tmp_path, {}, dy=numbers(4, 6))
    arguments.write_text(text)
    command = ("run", "aclnnIm2colBackward", arguments, arrays, "-o", output)
    assert "args.json" in failure(monkeypatch, capsys, *command)


def test_pickles_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    arguments, arrays, output = files(tmp_path, ARGUMENTS, dy=np.array([{}], dtype=object))
    command = ("run", "aclnnIm2colBackward", arguments, arrays, "-o", output)
    text = failure(monkeypatch, capsys, *command)
    assert "in.npz cannot be read: it is damaged or has Python objects; save arrays of" in text
    assert "allow_pickle" not in text


def test_a_text_file_named_npz_is_reported_as_such(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    arguments, arrays, output = files(tmp_path, ARGUMENTS)
    Path(arrays).write_text("1 2 3\n4 5 6\n")
    text = failure(
        monkeypatch, capsys, "run", "aclnnIm2colBackward", arguments, arrays, "-o", output
    )
    assert "in.npz is no .npz or .npy file, whatever its name: write it with numpy.savez" in text
    assert "pickle" not in text


def test_a_missing_file_is_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    arguments, _, output = files(tmp_path, ARGUMENTS)
    nowhere = tmp_path / "nowhere.npz"
    command = ("run", "aclnnIm2colBackward", arguments, nowhere, "-o", output)
    text = failure(monkeypatch, capsys, *command)
    assert f"There is no file or folder '{nowhere}'." in text


def test_an_unknown_operator(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    command = ("run", "aclnnMatmul", *files(tmp_path, {})[:2], "-o", tmp_path / "out.npz")
    message = (
        "operator does not accept aclnnMatmul; "
        "it accepts aclnnConvolutionBackward, aclnnIm2colBackward, "
    )
    assert message in failure(monkeypatch, capsys, *command)


def test_a_missing_file(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    command = ("run", "aclnnIm2colBackward", "no.json", "no.npz", "-o", "out.npz")
    assert "no.json" in failure(monkeypatch, capsys, *command)


def test_usage_errors_have_status_2() -> None:
    assert invoke("run").exit_code == 2
    assert invoke("fly").exit_code == 2


def test_serve_becomes_the_server_with_its_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    executed: list[tuple[str, list[str], dict[str, str]]] = []

    def execve(program: str, command: list[str], environment: dict[str, str]) -> None:
        executed.append((program, command, environment))

    monkeypatch.setattr(os, "execve", execve)
    options = ["--grpc-address", "127.0.0.1:0", "--device", "ascend910b", "--device", "ascend910b"]
    result = invoke("serve", *options)
    assert result.exit_code == 0, result.output
    ((program, command, environment),) = executed
    assert command == [program, "-P", "-m", "opserve_server"]
    assert environment["OPSERVE_GRPC_ADDRESS"] == "127.0.0.1:0"
    assert json.loads(environment["OPSERVE_DEVICES"]) == ["ascend910b", "ascend910b"]
    assert "OPSERVE_DEVICE_MEMORY_BYTES" not in environment.keys() - os.environ.keys()


@pytest.mark.parametrize("command", ["serve", "bootstrap", "warmup"])
def test_a_command_of_the_server_names_the_extra_that_is_missing(
    monkeypatch: pytest.MonkeyPatch, capsys: Capture, command: str
) -> None:
    installed = metadata.distribution

    def distribution(name: str) -> metadata.Distribution:
        if name in {"uvicorn", "fastapi"}:
            raise metadata.PackageNotFoundError(name)
        return installed(name)

    monkeypatch.setattr(metadata, "distribution", distribution)
    said = failure(monkeypatch, capsys, command)
    assert "a service on this computer needs fastapi and 1 more" in said
    assert "pip install 'opserve[server]'" in said


@pytest.fixture
def opened(fake: FakeService, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, object]]:
    """The options of each client that a command opened."""
    found: list[dict[str, object]] = []

    def client(_: str, **options: object) -> Client:
        found.append(options)
        return Client(transport=MemoryTransport(fake))

    monkeypatch.setattr(cli_connection, "Client", client)
    return found


GIVEN = ("--ca", "ca.pem", "--certificate", "c.pem", "--key", "k.pem", "--api-key", "abc")


@pytest.mark.parametrize("command", [("devices",), ("operators",), ("key", "list"), ("who",)])
def test_connection_options_are_accepted_before_and_after_the_command(
    opened: list[dict[str, object]], command: tuple[str, ...]
) -> None:
    tls = TlsFiles(ca=Path("ca.pem"), certificate=Path("c.pem"), key=Path("k.pem"))
    for line in (
        (*GIVEN, "--allow-plaintext", *command),
        (*command, *GIVEN, "--allow-plaintext"),
        (*GIVEN[:4], *command, *GIVEN[4:], "--allow-plaintext"),
        ("--api-key", "other", *command, *GIVEN, "--allow-plaintext"),
    ):
        invoke(*line)
        assert opened.pop() == {"api_key": "abc", "tls": tls, "allow_plaintext": True}
    invoke(*command)
    assert opened.pop() == {"api_key": None, "tls": None, "allow_plaintext": None}


def test_conform_accepts_connection_options_before_and_after_its_command(
    opened: list[dict[str, object]],
) -> None:
    for line in (
        ("--api-key", "abc", "conform", "runs"),
        ("conform", "--api-key", "abc", "runs"),
        ("conform", "runs", "--api-key", "abc"),
    ):
        invoke(*line, "--server", "127.0.0.1:1")
        assert opened.pop()["api_key"] == "abc"


def test_commands_without_a_service_have_no_connection_options() -> None:
    for command in (("serve",), ("warmup",), ("bootstrap",), ("conform", "cases")):
        result = invoke(*command, "--ca", "ca.pem")
        assert result.exit_code == 2
        assert "--ca" in result.output
