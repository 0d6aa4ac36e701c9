"""Programs beside a benchmark, which answer each line of JSON with one."""

import json
import os
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

Answer = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Program:
    """A running program.

    Attributes:
        greeting: The line that the program wrote when it was ready.
    """

    greeting: Answer
    _process: "subprocess.Popen[str]"

    def send(self, **request: object) -> None:
        """Sends a request, without waiting for its answer."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{json.dumps(request)}\n")
        self._process.stdin.flush()

    def receive(self) -> Answer:
        """Waits for the answer to the oldest request without one."""
        return _line(self._process)


@contextmanager
def program(
    module: str, *words: str, api_key: str = "", python: str = sys.executable
) -> Generator[Program]:
    """Runs a module until the block ends.

    Args:
        module: Full name of the module.
        words: Arguments of the command line.
        api_key: API key for the service; empty for a service without keys.
        python: Interpreter of the module's environment.
    """
    process = subprocess.Popen(  # a module of this repository
        [python, "-m", module, *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | ({"OPSERVE_API_KEY": api_key} if api_key else {}),
    )
    with process:
        yield Program(_line(process), process)


def _line(process: "subprocess.Popen[str]") -> Answer:
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        raise RuntimeError("a program beside the benchmark ended; see its log above")
    answer: Answer = json.loads(line)
    return answer
