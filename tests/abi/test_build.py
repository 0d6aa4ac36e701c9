"""`opserve abi build`: headers and library agree, and have every operator of aclnn."""

import re
import subprocess
from pathlib import Path

import pytest

from abi.acl import Acl
from abi.programs import compiled, run
from opserve_client.abi import build as building
from opserve_client.abi.build import LINKER_NAMES
from opserve_kernels.registry import OPERATORS

_DECLARED = re.compile(r"(?:ACL_FUNC_VISIBILITY|ACLNN_API)\s[^;]*?\b([aA]cl\w+)\(")

BEGIN = """
#include <cstdio>
#include "acl/acl.h"
int main() { std::printf("%d ", aclInit(nullptr)); std::puts(aclGetRecentErrMsg()); }
"""


def declared(library: Path) -> set[str]:
    headers = (library / "include").rglob("*.h")
    return {name for header in headers for name in _DECLARED.findall(header.read_text())}


def test_library_exports_the_declared_functions_and_no_other(library: Path) -> None:
    listing = subprocess.run(
        ["nm", "--dynamic", "--defined-only", library / "lib/libascendcl.so"],  # noqa: S607
        capture_output=True,
        text=True,
        check=True,
    )
    exported = {line.split()[-1] for line in listing.stdout.splitlines()}
    own = {name for name in exported if re.match("acl|Acl", name)}
    assert own == declared(library)
    assert {name for name in exported if not name.startswith(("acl", "Acl", "_Z"))} == set()


def test_library_needs_the_compilers_libraries_and_openssl_alone(library: Path) -> None:
    listing = subprocess.run(
        ["readelf", "--dynamic", library / "lib/libascendcl.so"],  # noqa: S607
        capture_output=True,
        text=True,
        check=True,
    )
    needed = set(re.findall(r"\(NEEDED\).*\[(.*)\.so[.\d]*\]", listing.stdout))
    system = {name for name in needed if re.fullmatch("libc|libm|libgcc_s|ld-linux.*", name)}
    assert "libstdc++" in needed
    assert needed - system <= {"libstdc++", "libssl", "libcrypto"}


@pytest.mark.slow
def test_library_without_openssl_refuses_https(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def has_none(_: object) -> bool:
        return False

    monkeypatch.setattr(building, "_has_openssl", has_none)
    assert building.build(tmp_path, compiler="g++", flags=("-O0",)) is False
    source = tmp_path / "begin.cpp"
    source.write_text(BEGIN)
    done = run(compiled(source, tmp_path, tmp_path), tmp_path, "https://localhost:1")
    assert done.stdout.startswith("107000 aclInit: ")
    assert "without OpenSSL" in done.stdout


def test_library_has_every_operator_of_aclnn(library: Path) -> None:
    calls = [one.call for one in OPERATORS.values() if one.call.startswith("aclnn")]
    assert len(calls) > 5
    functions = {name for call in calls for name in (call, f"{call}GetWorkspaceSize")}
    assert functions - declared(library) == set()


@pytest.mark.parametrize("name", LINKER_NAMES)
def test_linker_name_is_the_library(name: str, library: Path) -> None:
    assert (library / "lib" / name).resolve() == (library / "lib/libopserve_abi.so").resolve()


def test_headers_compile_alone_in_c_and_cxx(library: Path, tmp_path: Path) -> None:
    names = [
        str(header.relative_to(library / "include"))
        for header in (library / "include").rglob("*.h")
    ]
    for language in ("c", "c++"):
        for name in names:
            source = tmp_path / "alone"
            source.write_text(f'#include "{name}"\n')
            words = ["g++", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", "-x", language]
            subprocess.run([*words, f"-I{library}/include", source], check=True)


def test_missing_compiler_is_named(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="no-such-compiler is missing"):
        building.build(tmp_path, compiler="no-such-compiler")


def test_unused_function_of_the_vendor_is_absent(library: Path) -> None:
    assert not hasattr(Acl(library), "aclmdlLoadFromFile")


def test_environment_file_has_a_folder_of_any_name(tmp_path: Path) -> None:
    compiler = tmp_path / "compiler"
    compiler.write_text('#!/bin/sh\nwhile [ "$1" != -o ]; do shift; done\n: > "$2"\n')
    compiler.chmod(0o755)
    folder = tmp_path / "a 'name' of \"any\" $(touch run) `touch run` kind\ntouch run"
    folder.mkdir()
    building.build(folder, compiler=str(compiler))
    done = subprocess.run(
        ["/bin/sh", "-c", '. "$0"; printf %s "$ASCEND_HOME_PATH,$LIBRARY_PATH"', folder / "env.sh"],
        cwd=tmp_path,
        env={"LIBRARY_PATH": "before"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == f"{folder},{folder}/lib:before"
    assert not (tmp_path / "run").exists()
