"""Modules are compiled by several processes, each once what it needs is."""

import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from opserve_client.private_service import private_service
from opserve_kernels.loop_cache import folders_of, needs_of
from opserve_kernels.profiles import PROFILES
from opserve_kernels.registry import kernels_of
from opserve_server.pool.compiling import compiled

Write = Callable[[str, str], None]
MANY = ("abc", "ast", "bisect", "calendar", "cmd", "code", "codecs")
"""Enough for a second process."""


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Writes a module that processes find, by its name and what it does."""
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])

    def two_cores(_: int) -> set[int]:
        return {0, 1}

    monkeypatch.setattr(os, "sched_getaffinity", two_cores)

    def write(name: str, program: str) -> None:
        (tmp_path / f"{name}.py").write_text(program)

    return write


def test_a_module_is_loaded_once_what_it_needs_is(write: Write, tmp_path: Path) -> None:
    write("below", f"open({str(tmp_path / 'kept')!r}, 'x').close()")
    write("above", f"open({str(tmp_path / 'kept')!r}).close()")

    assert list(compiled({"above": ["below"], "below": []})) == ["below", "above"]


def test_two_modules_are_loaded_at_once(write: Write, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    write("one", f"open({str(pipe)!r}, 'rb').close()")  # waits for the other
    write("other", f"open({str(pipe)!r}, 'wb').close()")

    needs: dict[str, list[str]] = {name: [] for name in ("one", "other", *MANY)}
    assert set(compiled(needs)) == set(needs)


def test_an_exception_of_a_module_is_raised(write: Write) -> None:
    write("full", "raise OSError(28, 'no room')")

    with pytest.raises(OSError, match="no room"):
        list(compiled({"full": []}))


@pytest.mark.parametrize("profile", PROFILES)
def test_loops_are_compiled_before_the_modules_that_need_them(profile: str) -> None:
    needs = needs_of(kernels_of(profile).values())
    before: set[str] = set()
    for module, needed in needs.items():
        assert set(needed) <= before
        before.add(module)


@pytest.mark.system
def test_a_service_loads_the_kernels_of_its_devices_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = set(folders_of(kernels_of("reference").values()).values())
    for folder in kept:
        shutil.copytree(folder, tmp_path / folder.name)
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))

    with private_service(devices='["reference"]'):
        pass

    assert {folder.name for folder in tmp_path.iterdir()} == {folder.name for folder in kept}
    assert len(kept) < len(folders_of(kernels_of("ascend910b").values())) / 4
