"""opserve conform on layers that other projects' files hold."""

from pathlib import Path

import pytest

from client.conform.test_command_line import Capture, conform
from conformance.test_onnx_folders import FOLDED, IMAGE, TAPS, write_folder
from opserve_client.conform.selection import suite_named
from opserve_client.conform.targets.target import InfrastructureError
from opserve_client.private_service import Addresses

PROBLEMS = "--dir=BWD_D\n# a comment\nic4oc6_ih5kh3ph1\nic4\nic4oc6_ih5kh3ph1\nic8oc6_ih5kh3ph1\n"
COMMANDS = "MIOpenDriver conv -n 1 -c 4 -H 5 -W 6 -k 3 -F 6\nMIOpenDriver pool -n 1\n"


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "layers").write_text(PROBLEMS)
    (tmp_path / "commands").write_text(COMMANDS)
    columns = {"input": FOLDED, "image_shape": IMAGE[0, 0, 0, :2], "block_shape": IMAGE[0, 0, 0]}
    write_folder(tmp_path / "onnx" / "left", "Col2Im", columns, IMAGE, {})
    inputs = {"X": IMAGE, "W": TAPS}
    result = IMAGE[:, :, :2, :2]
    write_folder(tmp_path / "onnx" / "conv", "Conv", inputs, result, {"group": 2})


@pytest.mark.system
@pytest.mark.parametrize(
    ("suite", "passed", "left"),
    [
        ("benchdnn:layers", 2, "layers, line 4: a problem needs ic and oc, at least 1: ic4"),
        (
            "miopen:commands",
            1,
            "commands, line 2: program does not accept 'pool'; it accepts conv, convfp16, ",
        ),
        ("onnx:onnx", 1, "onnx, left/test_data_set_0: image_shape does not accept "),
    ],
)
def test_foreign_layers_are_converted_and_skipped_ones_are_reported(
    service: Addresses, capsys: Capture, suite: str, passed: int, left: str
) -> None:
    target = f"opserve:{service.grpc}"
    assert conform("run", "--suite", suite, "--target", target, "--server", service.grpc) == 0
    captured = capsys.readouterr()
    assert f": {passed} passed" in " ".join(captured.out.split())
    assert left in captured.err


def test_a_case_of_a_problem_has_it_as_its_source_and_is_drawn_by_the_seed() -> None:
    suite = suite_named("benchdnn:layers", 7)
    assert (suite.name, suite.seed) == ("benchdnn:layers", 7)
    assert [case.source for case in suite.cases] == ["ic4oc6_ih5kh3ph1", "ic8oc6_ih5kh3ph1"]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("benchdnn:commands", "commands: nothing can be converted to a case"),
        ("miopen:missing", r"suite miopen:missing: there is no such file or folder\."),
        ("onnx:missing", r"suite onnx:missing: there is no such file or folder\."),
        (
            "caffe:layers",
            "choose a file, benchdnn:PATH, miopen:PATH, onnx:PATH, msprobe:PATH, smoke",
        ),
    ],
)
def test_input_that_makes_no_suite_is_refused(name: str, reason: str) -> None:
    with pytest.raises(InfrastructureError, match=reason):
        suite_named(name, None)
