"""C++ programs: compiled against the library, and run against a service."""

import os
import subprocess
from pathlib import Path


def compiled(source: Path, library: Path, folder: Path, *flags: str, compiler: str = "g++") -> Path:
    """Compiles a program as the vendor's scripts do, with warnings as errors."""
    program = folder / source.stem
    libraries = ("-lopapi_nn", "-lopapi_math", "-lascendcl", "-lnnopbase")
    words = [compiler, "-std=c++17", "-Wall", "-Werror", f"{source}", "-o", f"{program}", *flags]
    folders = (f"-I{library}/include", f"-I{library}/include/aclnnop", f"-L{library}/lib")
    subprocess.run([*words, *folders, *libraries], check=True)
    return program


def run(
    program: Path, library: Path, address: str, **settings: str
) -> "subprocess.CompletedProcess[str]":
    """Runs a program; settings are environment variables."""
    environment = {"LD_LIBRARY_PATH": f"{library}/lib", "OPSERVE_ADDRESS": address, **settings}
    return subprocess.run(
        [program],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
