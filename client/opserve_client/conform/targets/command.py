"""Programs that read and write .npz files as targets: "cmd:./mykernel {in} {out}"."""

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Collection
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

from opserve_client.conform.targets.arrays_files import read_outputs, write_inputs
from opserve_client.conform.targets.target import InfrastructureError
from opserve_client.file_errors import sentence_of
from opserve_kernels.cases.arrays import placed_in
from opserve_kernels.cases.case import Case
from opserve_kernels.conformance.target import Broken, Missing, Outcome, Ran, without_codes
from opserve_kernels.status import ExitStatus
from opserve_kernels.verdict.judge_case import Arrays

_ERROR_CHARACTERS = 400  # of the program's standard error in a reason


class CommandTarget:
    """A program that is started for each call, without a shell.

    In the command, {in} is replaced by the path of an .npz file with the inputs, {out} by the path
    for the outputs by name, {case} by the path of the case in JSON. Exit status 0 means success, 77
    that the program does not implement the case.

    Args:
        command: Program and arguments, in the syntax of a POSIX shell; paths have / on Windows too.
        timeout_s: Time limit of a call in seconds.
    """

    skips = staticmethod(without_codes)

    def __init__(self, command: str, timeout_s: float) -> None:
        self._words, self._timeout_s = shlex.split(command), timeout_s
        if not self._words or not any("{out}" in word for word in self._words):
            raise InfrastructureError(
                f"target cmd:{command} has no {{out}} among its words: add the place of its "
                "outputs."
            )
        if shutil.which(self._words[0]) is None:
            raise InfrastructureError(f"target cmd:{command}: {_missing(self._words[0])}")

    async def run(self, case: Case, before: Arrays, *, read: Collection[str]) -> Outcome:
        """Runs the program in a new process."""
        del read  # the memory of the program is unknown
        return self._run(case, before)

    def close(self) -> None:
        """Does nothing: the target has no resources."""

    def _run(self, case: Case, before: Arrays) -> Outcome:
        with TemporaryDirectory(prefix="opserve-conform-") as folder:
            places = {name: Path(folder, name) for name in ("in.npz", "out.npz", "case.json")}
            write_inputs(case, placed_in(case, before), places["in.npz"])
            places["case.json"].write_text(json.dumps(case.to_json()), encoding="utf-8")
            words = [_placed(word, places) for word in self._words]
            started = perf_counter()
            failure = self._start(words)
            seconds = perf_counter() - started
            if failure is not None:
                return failure
            try:
                return Ran(outputs=read_outputs(case, places["out.npz"]), seconds=seconds)
            except ValueError as error:
                return Broken(reason=f"{words[0]}: its outputs: {error}")

    def _start(self, words: list[str]) -> Broken | Missing | None:
        try:
            process = subprocess.Popen(  # noqa: S603  the program that the user wants to test
                words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True
            )
        except OSError as error:
            raise InfrastructureError(f"target cmd: {sentence_of(error)}") from error
        with process:
            try:
                _, errors = process.communicate(timeout=self._timeout_s)
            except subprocess.TimeoutExpired:
                _kill(process.pid)
                return Broken(reason=f"{words[0]}: no end within {self._timeout_s:g} s")
        if process.returncode == ExitStatus.UNIMPLEMENTED:
            return Missing(reason=f"{words[0]} ended with {ExitStatus.UNIMPLEMENTED}")
        if process.returncode == 0:
            return None
        reason = _last_lines(errors.decode(errors="replace")) or "it wrote no error"
        return Broken(reason=f"{words[0]} ended with {process.returncode}: {reason}")


def _missing(program: str) -> str:
    """Says why a program cannot be started."""
    if not Path(program).is_file():
        return f"there is no program {program}: give its path, or its name if PATH has its folder."
    if not os.path.dirname(program):  # noqa: PTH120  Path drops the ./ of ./program
        return f"there is no program {program} in PATH: write ./{program} for the file here."
    return f"{program} is not executable: run `chmod +x {program}`."


def _kill(pid: int) -> None:
    """Kills a program and its child processes, which would keep its standard error open."""
    if sys.platform == "win32":
        words = ["taskkill", "/F", "/T", "/PID", f"{pid}"]  # of Windows itself: no process groups
        subprocess.run(words, check=False, capture_output=True)  # noqa: S603
    else:
        os.killpg(pid, signal.SIGKILL)


def _last_lines(errors: str) -> str:
    """Joins the last complete lines of a text, without lines that only underline others."""
    end = errors[-_ERROR_CHARACTERS:]
    _, _, rest = end.partition("\n")
    whole = rest if rest and len(errors) > len(end) else end
    lines = [line.strip() for line in whole.splitlines()]
    return "; ".join(line for line in lines if any(letter.isalnum() for letter in line))


def _placed(word: str, places: dict[str, Path]) -> str:
    for mark, name in (("{in}", "in.npz"), ("{out}", "out.npz"), ("{case}", "case.json")):
        word = word.replace(mark, str(places[name]))
    return word
