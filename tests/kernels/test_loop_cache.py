"""The cache of compiled loops, without compiling any."""

import fcntl
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import opserve_kernels
from opserve_kernels.loop_cache import STATES_KEPT, base_folder, locked

MODULE = "opserve_kernels.gradient_loops"
PROGRAM = f"""
import json
from opserve_kernels.loop_cache import folders_of
print(json.dumps({{module: folder.name for module, folder in folders_of(["{MODULE}"]).items()}}))
"""


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A copy of the kernels that a test may edit."""
    copy = tmp_path / "opserve_kernels"
    unread = shutil.ignore_patterns("__pycache__")
    shutil.copytree(Path(opserve_kernels.__path__[0]), copy, ignore=unread)
    return copy


def folders(package: Path) -> dict[str, str]:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(package.parent), *sys.path])}
    command = [sys.executable, "-c", PROGRAM]
    found: dict[str, str] = json.loads(subprocess.check_output(command, env=environment))
    return found


def edit(file: Path) -> None:
    file.write_text(file.read_text() + "\n# another state\n")


def changed(before: dict[str, str], after: dict[str, str]) -> set[str]:
    found = {module for module in before if before[module] != after[module]}
    return {module.removeprefix("opserve_kernels.") for module in found}


def test_an_edit_changes_the_folders_of_a_module_and_of_those_that_import_it(package: Path) -> None:
    before = folders(package)
    edit(package / "algorithms" / "packed" / "loops.py")

    assert changed(before, folders(package)) == {"algorithms.packed.loops", "gradient_loops"}


def test_a_module_that_is_imported_from_its_package_counts(package: Path) -> None:
    before = folders(package)
    edit(package / "algorithms" / "codegen" / "plain_kernels.py")

    importers = {"codegen.plain_kernels", "codegen.micro_kernels", "packed.loops"}
    assert {f"algorithms.{module}" for module in importers} <= changed(before, folders(package))


def test_every_folder_changes_with_how_loops_are_compiled(package: Path) -> None:
    before = folders(package)
    edit(package / "loops.py")

    assert len(changed(before, folders(package))) == len(before)


def test_a_module_follows_those_that_it_imports(package: Path) -> None:
    order = list(folders(package))

    assert order[-1] == MODULE
    assert order.index("opserve_kernels.strided") < order.index(MODULE)


def test_folders_are_the_users_where_the_package_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    inside = base_folder()

    def refuse(*_: object) -> bool:
        return False

    monkeypatch.setattr(os, "access", refuse)

    assert inside.is_relative_to(Path(opserve_kernels.__path__[0]))
    assert base_folder() == tmp_path / "opserve"


def test_a_chosen_folder_has_precedence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))

    assert base_folder() == tmp_path


def test_states_of_modules_of_one_name_are_counted_apart(package: Path) -> None:
    found = folders(package)
    named = {name.rpartition("-")[0] for name in found.values()}

    assert len(named) == len(found)


def test_one_process_at_a_time_is_in_a_folder(tmp_path: Path) -> None:
    folder = tmp_path / "packed-0"
    with locked(folder), (folder / "lock").open() as other, pytest.raises(BlockingIOError):
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_the_states_of_a_module_that_were_used_last_are_kept(tmp_path: Path) -> None:
    with locked(tmp_path / "dots-0"):
        pass
    for state in range(STATES_KEPT + 2):
        folder = tmp_path / f"packed-{state}"
        with locked(folder):
            os.utime(folder / "lock", (state, state))

    kept = {f"packed-{state}" for state in range(2, STATES_KEPT + 2)}
    assert {folder.name for folder in tmp_path.glob("packed-*")} == kept
    assert (tmp_path / "dots-0").exists()
