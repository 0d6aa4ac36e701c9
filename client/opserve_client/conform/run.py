"""A run of many cases; each is recorded as soon as it is judged, so that a run can go on later."""

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
    told: Callable[[Result], None],
) -> RunRecord:
    """Tries all cases, the largest first: begun last, one would hold up the end of the run alone.

    Args:
        cases: In the order of the record.
        setup: What they are tried with.
        workers: Processes that try them.
        folder: Where the record is written; None means nowhere.
        resume: Whether the record that is there already is gone on with.
        told: Is called with each result as it comes.

    Raises:
        InfrastructureError: Nothing could be said of a case, or there is another run's record; the
            record holds what was judged before.
    """
    found = {} if folder is None or not resume else _begun(folder, setup.header)
    left = [case for case in cases if case.id not in found]
    left.sort(key=_elements, reverse=True)
    opened = nullcontext() if folder is None else _opened(folder, setup.header, resume=resume)
    with opened as file:
        for result in workers.results(left, setup):
            found[result.case.id] = result
            if file is not None:
                file.write(result_line(result))
                file.flush()
            told(result)
    ordered = tuple(found[case.id] for case in cases)
    return RunRecord(header=setup.header, results=ordered)


def _elements(case: Case) -> int:
    return sum(tensor.storage_elements for tensor in case.tensors.values())


def _begun(folder: Path, header: Header) -> dict[str, Result]:
    """What an earlier run of the same kind has judged."""
    path = folder / RECORD_NAME
    if not path.exists() or not path.stat().st_size:
        return {}
    try:
        record = read_record(path)
    except RecordError as error:
        raise InfrastructureError(str(error)) from error
    if record.header != header:
        told = f"{_difference(record, header)}; without --resume it is written anew"
        raise InfrastructureError(f"{path}: it is of another run: {told}")
    return {result.case.id: result for result in record.results}


def _difference(record: RunRecord, header: Header) -> str:
    names = [
        name for name in Header.__slots__ if getattr(record.header, name) != getattr(header, name)
    ]
    return f"{', '.join(names)} differ"


def _opened(folder: Path, header: Header, *, resume: bool) -> IO[str]:
    """The record, for this run alone, behind its last whole line; one that is not resumed goes."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / RECORD_NAME
    file = path.open("a", encoding="utf-8")
    try:
        lock(file)
    except OSError as error:
        file.close()
        raise InfrastructureError(f"{path}: another run writes to it") from error
    whole = path.read_bytes().rfind(b"\n") + 1 if resume else 0
    file.truncate(whole)
    if not whole:
        file.write(header_line(header))
        file.flush()
    return file
