"""`opserve abi build`: headers and library agree, and have every operator of aclnn."""

import re
import subprocess
from pathlib import Path

import pytest

from abi.acl import Acl
from opserve_client.abi.build import LINKER_NAMES
from opserve_kernels.registry import OPERATORS

_DECLARED = re.compile(r"(?:ACL_FUNC_VISIBILITY|ACLNN_API)\s[^;]*?\b([aA]cl\w+)\(")


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
    from opserve_client.abi.build import build  # noqa: PLC0415

    with pytest.raises(OSError, match="no-such-compiler is missing"):
        build(tmp_path, compiler="no-such-compiler")


def test_unused_function_of_the_vendor_is_absent(library: Path) -> None:
    assert not hasattr(Acl(library), "aclmdlLoadFromFile")
