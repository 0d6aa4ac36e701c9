"""The C library for aarch64: Debian's cross compiler, and an emulator that runs the programs."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from abi.programs import compiled
from opserve_client.abi.build import build
from opserve_client.private_service import Addresses
from skips import needs_program

COMPILER, EMULATOR = "aarch64-linux-gnu-g++", "qemu-aarch64-static"
SYSTEM = "/usr/aarch64-linux-gnu"
SMALL_SPAN = "-DOPSERVE_SPAN_BITS=30"
"""The emulator needs memory for every reserved page."""
pytestmark = [
    pytest.mark.slow,
    needs_program(
        COMPILER, there=shutil.which(COMPILER) is not None, package=f"g++-{COMPILER[:-4]}"
    ),
    needs_program(EMULATOR, there=shutil.which(EMULATOR) is not None, package="qemu-user-static"),
]


def test_eight_threads_are_right_on_aarch64(service: Addresses, tmp_path: Path) -> None:
    library = tmp_path / "abi"
    build(library, compiler=COMPILER, flags=("-O0", SMALL_SPAN))
    source = Path(__file__).parent / "cpp/threads.cpp"
    program = compiled(source, library, tmp_path, compiler=COMPILER)
    done = subprocess.run(
        [EMULATOR, "-L", SYSTEM, "-E", f"LD_LIBRARY_PATH={library}/lib", program],
        env=os.environ | {"OPSERVE_ADDRESS": service.rest},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert (done.stdout, done.stderr, done.returncode) == ("", "", 0)
