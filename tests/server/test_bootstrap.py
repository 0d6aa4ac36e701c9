"""`opserve bootstrap` where a store had keys before."""

import subprocess
import sys
from pathlib import Path

import pytest

from opserve_server.bootstrap import main


def test_a_store_that_had_keys_and_is_missing_is_made_anew_by_force_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "farm.db"
    monkeypatch.setenv("OPSERVE_STORE_URL", f"sqlite:///{file}")
    assert main([]) == 0
    file.unlink()
    assert f"The store sqlite:///{file} has this key" in capsys.readouterr().err
    assert main([]) == 2
    refused = capsys.readouterr()
    assert refused.out == ""
    assert f"sqlite:///{file} had keys and is missing: restore it, or give --force" in refused.err
    assert not file.exists()
    assert main(["--force"]) == 0
    assert file.exists()


@pytest.mark.parametrize("module", [pytest.param("argparse", marks=pytest.mark.slow), "sqlalchemy"])
def test_modules_in_the_working_directory_replace_none_of_the_service(
    tmp_path: Path, module: str
) -> None:
    (tmp_path / f"{module}.py").write_text("raise SystemExit(7)\n")
    url = f"sqlite:///{tmp_path}/farm.db"
    opserve = Path(sys.executable).with_name("opserve")
    done = subprocess.run([opserve, "bootstrap", "--store", url], cwd=tmp_path, check=False)
    assert done.returncode == 0
