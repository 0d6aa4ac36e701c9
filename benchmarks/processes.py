"""Programs beside a benchmark: told by lines of JSON what to do, and answering each with one."""

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
    """A program that runs.

    Attributes:
        greeting: What it told when it was ready.
    """

    greeting: Answer
    _process: "subprocess.Popen[str]"

    def tell(self, **order: object) -> None:
        """Tells it to begin something."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{json.dumps(order)}\n")
        self._process.stdin.flush()

    def answer(self) -> Answer:
        """What came of the eldest order without an answer; waits for it."""
        return _line(self._process)


@contextmanager
def program(module: str, *words: str, api_key: str) -> Generator[Program]:
    """Runs a module until the block ends.

    Args:
        module: Its whole name.
        words: Arguments of its command line.
        api_key: Who it is at the service.
    """
    process = subprocess.Popen(  # our own interpreter and module
        [sys.executable, "-m", module, *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"OPSERVE_API_KEY": api_key},
    )
    with process:
        yield Program(_line(process), process)


def _line(process: "subprocess.Popen[str]") -> Answer:
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        raise RuntimeError("a program beside the benchmark has ended; its log says why")
    answer: Answer = json.loads(line)
    return answer
