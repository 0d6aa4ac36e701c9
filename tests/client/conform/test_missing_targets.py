"""A target that cannot be imported is one sentence with the exit status of a wrong option."""

import re
import sys
from pathlib import Path

import pytest

from opserve_client.conform import command_line, options
from opserve_client.conform.targets.function import function_at
from opserve_client.conform.targets.named import NO_CREDENTIALS, check_target
from opserve_client.conform.targets.target import InfrastructureError


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    return tmp_path


@pytest.mark.parametrize("target", ["nomod:f", "no.such.mod:f"])
def test_a_module_that_does_not_exist_ends_a_run_before_anything_starts(
    target: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(options, "Workers", None)
    monkeypatch.setattr(options, "service", None)
    with pytest.raises(SystemExit) as ended:
        command_line.main(["run", "--suite", "smoke", "--target", target], NO_CREDENTIALS)
    assert ended.value.code == 2
    output, error = capsys.readouterr()
    assert output == ""
    assert error.startswith(f"opserve conform: target {target}: ")
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    ("target", "sentence"),
    [
        ("my_packge.kernels:f", "has a module my_packge; did you mean my_package?"),
        ("my_kernel:f", "has a module my_kernel; did you mean my_kernels?"),
        ("my_package.kernls:f", "has a module my_package.kernls."),
    ],
)
def test_a_misspelt_module_gets_a_likely_one(folder: Path, target: str, sentence: str) -> None:
    (folder / "my_package").mkdir()
    (folder / "my_package" / "__init__.py").touch()
    (folder / "my_kernels.py").touch()
    with pytest.raises(InfrastructureError, match=re.escape(sentence)):
        check_target(target, 1.0)


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("raise ValueError('no data')", "ValueError: no data"),
        ("def f(", "SyntaxError: "),
        ("import nowhere", r"No module named 'nowhere'; install nowhere in this environment\."),
        ("g = 1", "has no function f."),
        ("def foo(): ...\n\n\ndef fo(): ...", r"has no function f; did you mean fo\?"),
    ],
)
def test_a_module_that_raises_at_its_import_is_reported_with_the_reason(
    folder: Path, source: str, reason: str
) -> None:
    name = f"target_{abs(hash(source))}"
    (folder / f"{name}.py").write_text(source)
    check_target(f"{name}:f", 1.0)
    with pytest.raises(InfrastructureError, match=f"^target {name}:f: .*{reason}"):
        function_at(f"{name}:f")
