"""C++ programs, compiled and run: the page's, and the vendor's samples where they are."""

import os
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

from abi.programs import compiled, run
from opserve_client import Client, Im2colBackward
from opserve_client.private_service import Addresses

PAGE = Path(__file__).parents[2] / "docs/how-to/cpp-programs.md"


def test_program_of_the_page_prints_the_bits_of_the_sdk(
    library: Path, service: Addresses, tmp_path: Path
) -> None:
    (program,) = re.findall(r"```cpp\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    source = tmp_path / "program.cpp"
    source.write_text(program)
    done = run(compiled(source, library, tmp_path, "-Wextra"), library, service.rest)
    columns = np.array([0.1, 1.1, 2.1, 3.1, 4.1, 5.1, 6.1, 7.1], np.float32).reshape(4, 2)
    call = Im2colBackward(
        grad_output=columns,
        input_size=(1, 2),
        kernel_size=2,
        dilation=1,
        padding=(1, 0),
        stride=1,
    )
    with Client(service.rest) as client, client.open_session("ascend910b") as session:
        expected = session.run(call).out
    assert (done.returncode, done.stderr) == (0, "")
    printed = [float.fromhex(value) for value in done.stdout.split()]
    assert printed == expected.ravel().tolist()


def test_page_names_the_compiler_and_the_libraries() -> None:
    (commands,) = re.findall(r"```sh\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    assert "opserve abi build abi\n. abi/env.sh\n" in commands
    assert "-lopapi_nn -lopapi_math -lascendcl -lnnopbase" in commands


@pytest.mark.parametrize("shell", ["sh"])
def test_environment_file_suffices_to_compile_and_run(
    shell: str, library: Path, service: Addresses, tmp_path: Path
) -> None:
    source = tmp_path / "small.cpp"
    source.write_text(
        '#include "acl/acl.h"\nint main() { return aclInit(nullptr) + aclFinalize(); }\n'
    )
    commands = f". {library}/env.sh && g++ small.cpp -o small -lascendcl && ./small"
    environment = {**os.environ, "OPSERVE_ADDRESS": service.rest}
    subprocess.run([shell, "-c", commands], cwd=tmp_path, env=environment, check=True)
