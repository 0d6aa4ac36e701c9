"""Execution of a run, whose record is written case by case so that a run can be resumed."""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import IO

from opserve_client.conform.exclusive import lock
from opserve_client.conform.record import (
    RECORD_NAME,
    Header,
    RecordError,
    Result,
    RunRecord,
    header_line,
    read_record,
    result_line,
)
from opserve_client.conform.show import show_replaced
from opserve_client.conform.targets.target import InfrastructureError
from opserve_client.conform.workers import Setup, Workers
from opserve_kernels.cases.case import Case


def run_cases(
    cases: Sequence[Case],
    setup: Setup,
    *,
    workers: Workers,
    folder: Path | None,
    resume: bool,
    on_result: Callable[[Result], None],
) -> RunRecord:
    """Runs all cases, the largest first.

    A large case that starts last would delay the end of the run while other processes are idle.

    Args:
        cases: Cases in the order of the record.
        setup: Setup of the worker processes.
        workers: Worker processes.
        folder: Folder for the record; None means no record.
        resume: Whether to continue the record in the folder.
        on_result: Called with each new result.

    Raises:
        InfrastructureError: A case has no verdict, or the folder has the record of another run. The
            record has all earlier results.
    """
    found = {} if folder is None or not resume else _recorded(folder, setup.header)
    left = [case for case in cases if case.id not in found]
    left.sort(key=_elements, reverse=True)
    opened = nullcontext() if folder is None else _open_record(folder, setup.header, resume=resume)
    with opened as file:
        try:
            for result in workers.results(left, setup):
                found[result.case.id] = result
                if file is not None:
                    file.write(result_line(result))
                    file.flush()
                on_result(result)
        except InfrastructureError as error:
            if folder is None or not found:
                raise
            text = str(error).removesuffix(".")
            raise InfrastructureError(
                f"{text}; {folder} has the results so far: --resume continues the run."
            ) from error
    ordered = tuple(found[case.id] for case in cases)
    return RunRecord(header=setup.header, results=ordered)


def _elements(case: Case) -> int:
    return sum(tensor.storage_elements for tensor in case.tensors.values())


def _recorded(folder: Path, header: Header) -> dict[str, Result]:
    """Returns the results in the record of an earlier run with the same header."""
    path = folder / RECORD_NAME
    if not path.exists() or not path.stat().st_size:
        return {}
    try:
        record = read_record(path)
    except RecordError as error:
        raise InfrastructureError(str(error)) from error
    if record.header != header:
        raise InfrastructureError(
            f"{path}: the record is of another run: {_difference(record, header)}; use another "
            "--folder, or overwrite the record without --resume"
        )
    return {result.case.id: result for result in record.results}


def _difference(record: RunRecord, header: Header) -> str:
    names = [
        name for name in Header.__slots__ if getattr(record.header, name) != getattr(header, name)
    ]
    return f"{', '.join(names)} differ"


def _open_record(folder: Path, header: Header, *, resume: bool) -> IO[str]:
    """Opens and locks the record at the end of its last complete line.

    Without `resume` the old content is dropped, but only under the lock: another run may still
    write to the file.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / RECORD_NAME
    file = path.open("a", encoding="utf-8")
    try:
        lock(file)
    except OSError as error:
        file.close()
        raise InfrastructureError(f"{path}: another run writes to it") from error
    whole = path.read_bytes().rfind(b"\n") + 1
    if whole and not resume:
        show_replaced(path)
        whole = 0
    file.truncate(whole)
    if not whole:
        file.write(header_line(header))
        file.flush()
    return file
