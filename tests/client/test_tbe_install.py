"""The modules that tbe.install puts into sys.modules: what is there, what is not, and when."""

import importlib
import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from opserve_client import AclrtError, AsyncClient, AsyncSession, Client, Session
from opserve_client.tbe import Installation, install

NAMES = [
    *("tbe", "tbe.tvm", "tbe.dsl", "tbe.dsl.compute", "tbe.dsl.compute.cube_util"),
    *("tbe.common", "tbe.common.platform"),
]


@pytest.fixture
def installed(session: Session) -> Iterator[Installation]:
    with install(session, {}) as installation:
        yield installation


def ours() -> list[str]:
    return [name for name in sys.modules if name.partition(".")[0] == "tbe"]


def test_nothing_is_there_before_install() -> None:
    assert ours() == []
    assert importlib.util.find_spec("tbe") is None


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("name", NAMES)
def test_every_module_is_imported_by_its_name(name: str) -> None:
    module = importlib.import_module(name)
    assert module.__name__ == name
    assert importlib.util.find_spec(name) is not None


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    "line",
    [
        "from tbe import tvm",
        "from tbe import dsl",
        "from tbe.dsl.compute import cube_util",
        "import tbe.dsl.compute.cube_util; tbe.tvm.placeholder; tbe.dsl.conv2d_backprop_input",
        "from tbe.dsl import conv2d_backprop_filter, conv2d_backprop_input",
        "from tbe.common import platform as tbe_platform; assert tbe_platform.C0_SIZE == 16",
        "from tbe.common.platform import CUBE_MKN; assert CUBE_MKN['float16']['mac'][1] == 16",
    ],
)
def test_import_lines_work(line: str) -> None:
    exec(line, {})  # noqa: S102  a line of this file


def test_the_modules_are_removed_with_the_block(session: Session) -> None:
    with install(session, {}) as installation:
        assert sorted(installation.modules) == sorted(ours()) == sorted(NAMES)
    assert ours() == []


def test_the_modules_are_removed_when_the_block_fails(session: Session) -> None:
    with pytest.raises(ZeroDivisionError), install(session, {}):
        raise ZeroDivisionError
    assert ours() == []


def test_uninstalling_twice_does_nothing(session: Session) -> None:
    installation = install(session, {})
    installation.uninstall()
    assert ours() == []
    with install(session, {}) as later:
        installation.uninstall()
        assert sys.modules["tbe"] is later.modules["tbe"]


def test_uninstalling_leaves_foreign_modules(session: Session) -> None:
    installation = install(session, {})
    foreign = ModuleType("tbe.tvm")
    sys.modules["tbe.tvm"] = foreign
    try:
        installation.uninstall()
        assert ours() == ["tbe.tvm"]
    finally:
        del sys.modules["tbe.tvm"]


def test_a_second_install_is_refused_and_the_first_one_stays(
    installed: Installation, session: Session
) -> None:
    with pytest.raises(AclrtError, match=r"tbe does not accept an earlier install.*uninstall"):
        install(session, {})
    for name, module in installed.modules.items():
        assert sys.modules[name] is module


@pytest.mark.parametrize("name", ["tbe", "tbe.tvm", "tbe.common"])
def test_a_tbe_that_is_loaded_is_not_hidden(
    name: str, monkeypatch: pytest.MonkeyPatch, session: Session
) -> None:
    monkeypatch.setitem(sys.modules, name, ModuleType(name))
    with pytest.raises(AclrtError, match=f"tbe does not accept a module {name} that is loaded"):
        install(session, {})
    assert ours() == [name]


@pytest.mark.parametrize(
    ("file", "place"), [("__init__.py", r".*__init__\.py"), ("script.py", "a folder on sys.path")]
)
def test_a_tbe_that_can_be_imported_is_not_hidden(
    file: str, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, session: Session
) -> None:
    (tmp_path / "tbe").mkdir()
    (tmp_path / "tbe" / file).touch()
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    with pytest.raises(
        AclrtError, match=f"tbe does not accept a package of that name in {place}; it accepts"
    ):
        install(session, {})
    assert ours() == []


@pytest.mark.parametrize("kind", [AsyncSession, AsyncClient, Client])
def test_only_a_blocking_session_is_taken(kind: Any) -> None:
    given = object.__new__(kind)
    with pytest.raises(
        AclrtError, match=f"session does not accept {kind.__name__}; it accepts a blocking"
    ):
        install(given, {})
    assert ours() == []


def test_data_is_a_mapping(session: Session) -> None:
    wrong: Any = [np.zeros(1)]
    with pytest.raises(AclrtError, match="data does not accept list"):
        install(session, wrong)
    assert ours() == []


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    "place", ["tbe.te", "tbe.tvm.compute", "tbe.dsl.vadd", "tbe.dsl.compute.cube_util.im2col_6d"]
)
def test_a_missing_name_lists_the_existing_ones(place: str) -> None:
    module, _, name = place.rpartition(".")
    expected = rf"{place}: opserve has tvm\.placeholder, dsl\.conv2d_backprop_input and .* not mix"
    with pytest.raises(AttributeError, match=expected):
        getattr(importlib.import_module(module), name)
    assert not hasattr(importlib.import_module(module), name)


@pytest.mark.usefixtures("installed")
def test_a_missing_name_cannot_be_imported() -> None:
    with pytest.raises(ImportError, match=r"'vadd' from 'tbe\.dsl'"):
        exec("from tbe.dsl import vadd", {})  # noqa: S102  a line of this file
    with pytest.raises(ModuleNotFoundError, match=r"No module named 'tbe\.common\.utils'$"):
        importlib.import_module("tbe.common.utils")
