"""`opserve conform --target aclnn:LIBDIR`: our library, and libraries that fail."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from opserve_client.conform.targets import aclnn
from opserve_client.conform.targets.target import InfrastructureError
from opserve_client.private_service import Addresses

OPSERVE = Path(sys.executable).parent / "opserve"
RUNTIME = """
#include <cstdint>
#include <cstdlib>
#include <unistd.h>
extern "C" {
int aclInit(const char*) { return 0; }
int aclFinalize() { return 0; }
int aclrtSetDevice(int) { return 0; }
int aclrtResetDevice(int) { return 0; }
const char* aclrtGetSocName() { return "Ascend910B1"; }
const char* aclGetRecentErrMsg() { return "a reason"; }
int aclrtMalloc(void** address, size_t size, int) { *address = std::malloc(size); return 0; }
int aclrtFree(void* address) { std::free(address); return 0; }
int aclrtMemcpy(void*, size_t, const void*, size_t, int) { return 0; }
void* aclCreateTensor() { return nullptr; }
void* aclCreateIntArray() { return nullptr; }
int aclDestroyTensor(void*) { return 0; }
int aclDestroyIntArray(void*) { return 0; }
int aclnnIm2col() { return 0; }
int aclnnIm2colGetWorkspaceSize() { BODY }
}
"""
BODIES = {
    "crashes": ("std::abort();", "ERROR"),
    "hangs": ("for (;;) pause();", "ERROR"),
    "rejects": ("return 161002;", "FAILED"),
}


def conform(
    library: Path, service: Addresses, folder: Path, *options: str
) -> "subprocess.CompletedProcess[str]":
    words = ["conform", "run", "--suite", "smoke", "--server", service.grpc, "--seed", "0"]
    return subprocess.run(
        [OPSERVE, *words, "--target", f"aclnn:{library}", "--folder", str(folder), *options],
        env=os.environ | {"OPSERVE_ADDRESS": service.rest, "OPSERVE_ABI_DEVICES": "ascend910b"},
        capture_output=True,
        text=True,
        check=False,
    )


def record(folder: Path) -> tuple[dict[str, Any], list[str]]:
    """The header of a run, and the statuses of its cases."""
    header, *results = map(json.loads, (folder / "record.jsonl").read_text().splitlines())
    return header, [result["verdict"]["status"] for result in results]


def one_library(folder: Path, body: str, *, without: str = "nothing") -> Path:
    """A library whose phase one of aclnnIm2col has a body, without one function."""
    source = folder / "library.cpp"
    source.write_text(RUNTIME.replace("BODY", body).replace(without, f"{without}Not"))
    words = ["g++", "-shared", "-fPIC", "-O1", f"{source}", "-o", f"{folder}/libascendcl.so"]
    subprocess.run(words, check=True)
    (folder / "libopapi.so").symlink_to("libascendcl.so")
    return folder


def test_our_library_passes_the_cases_of_an_operator(
    library: Path, service: Addresses, tmp_path: Path
) -> None:
    done = conform(library / "lib", service, tmp_path, "--operator", "im2col")
    assert done.returncode == 0, done.stdout + done.stderr
    header, statuses = record(tmp_path)
    assert statuses.count("PASSED") > 20
    assert header["kernel_variant"].startswith("Ascend910B, libopserve_abi.so sha256:")


@pytest.mark.slow
def test_our_library_passes_the_suite(library: Path, service: Addresses, tmp_path: Path) -> None:
    done = conform(library / "lib", service, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    _, statuses = record(tmp_path)
    assert statuses.count("PASSED") > 400


@pytest.mark.slow
@pytest.mark.parametrize("fault", BODIES)
def test_crashes_hangs_and_rejections_are_verdicts(
    fault: str, service: Addresses, tmp_path: Path
) -> None:
    body, status = BODIES[fault]
    folder = one_library(tmp_path, body)
    options = ("--operator", "im2col", "--match", "plain")
    limit = ("--timeout", "3") if fault == "hangs" else ()
    done = conform(folder, service, tmp_path / "run", *options, *limit)
    assert done.returncode == 1, done.stdout + done.stderr
    _, statuses = record(tmp_path / "run")
    assert status in statuses
    assert "PASSED" not in statuses


@pytest.mark.slow
def test_missing_functions_are_unimplemented(service: Addresses, tmp_path: Path) -> None:
    folder = one_library(tmp_path, "return 0;")
    options = ("--operator", "conv_tbc", "--match", "plain")
    conform(folder, service, tmp_path / "run", *options)
    _, statuses = record(tmp_path / "run")
    assert set(statuses) <= {"UNIMPLEMENTED", "SKIPPED"}


def test_versions_of_driver_and_toolkit_are_kept_and_one_that_may_not_be_read_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver, toolkit = tmp_path / "driver", tmp_path / "toolkit"
    packages, libraries = toolkit / "share/info", toolkit / "lib64"
    texts = {driver: "24.1.rc2", packages / "runtime": "8.3.0", packages / "ops_nn": "8.3.0"}
    for folder, version in texts.items():
        folder.mkdir(parents=True)
        (folder / "version.info").write_text(f"package=one\nVersion={version}\ntimestamp=1\n")
    (toolkit / "opp/version.info").mkdir(parents=True)  # no file that can be read
    libraries.mkdir()
    monkeypatch.setattr(aclnn, "_DRIVER", driver / "version.info")
    found = aclnn.device_of(one_library(libraries, "return 0;"))
    assert found.startswith("Ascend910B1, driver 24.1.rc2, CANN 8.3.0, libascendcl.so")


def test_folder_without_libraries_is_named(service: Addresses, tmp_path: Path) -> None:
    done = conform(tmp_path, service, tmp_path / "run")
    assert done.returncode == 2
    assert "no libascendcl.so" in done.stderr


def test_library_that_cannot_be_loaded_is_one_sentence(tmp_path: Path) -> None:
    for name in ("libascendcl.so", "libopapi.so"):
        (tmp_path / name).write_text("no library")
    with pytest.raises(InfrastructureError) as failure:
        aclnn.device_of(tmp_path)
    path = tmp_path / "libascendcl.so"
    assert str(failure.value) == f"aclnn:{tmp_path}: {path}: file too short"


def test_library_without_a_function_of_the_runtime_is_one_sentence(tmp_path: Path) -> None:
    folder = one_library(tmp_path, "return 0;", without="aclInit")
    with pytest.raises(InfrastructureError) as failure:
        aclnn.device_of(folder)
    assert str(failure.value) == f"aclnn:{folder}: the libraries have no function aclInit"
