"""The C library, built once for all test processes, and a process of the vendor's runtime."""

import fcntl
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from abi.acl import Acl
from opserve_client.abi.build import ENVIRONMENT, build
from opserve_client.private_service import Addresses

COMPILER = "g++"
IS_THERE = shutil.which(COMPILER) is not None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    from skips import needs_program  # noqa: PLC0415  pytest's own path has it

    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(needs_program(COMPILER, there=IS_THERE, package="g++"))


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built library: a folder with include, lib and env.sh."""
    base = tmp_path_factory.getbasetemp()
    root = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    folder = root / "abi"
    with (root / "abi.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / ENVIRONMENT).exists():
            build(folder, compiler=COMPILER, flags=("-O0", "-Wextra", "-Werror"))
    return folder


@pytest.fixture
def idle(library: Path, service: Addresses, monkeypatch: pytest.MonkeyPatch) -> Acl:
    """The library before aclInit."""
    monkeypatch.setenv("OPSERVE_ADDRESS", service.rest)
    monkeypatch.setenv("OPSERVE_ABI_DEVICES", "ascend910b,ascend310p")
    return Acl(library)


@pytest.fixture
def acl(idle: Acl) -> Iterator[Acl]:
    """The library on device 0."""
    idle.done("aclInit", None)
    idle.done("aclrtSetDevice", 0)
    yield idle
    idle.aclFinalize()
    idle.message()
