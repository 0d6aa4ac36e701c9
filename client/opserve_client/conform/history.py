"""Runs in the history of a service: send, list and read them."""

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path

import typer

from opserve.v1.conformance_service_pb2 import CaseResult, Run
from opserve_client.cli_rows import Row, moment
from opserve_client.conform.record import (
    RECORD_NAME,
    Result,
    RunRecord,
    read_record,
    record_path,
    write_record,
)
from opserve_client.conform.targets.named import Access
from opserve_client.conform.targets.target import InfrastructureError
from opserve_client.errors import OpserveError
from opserve_kernels.conformance.comparison import Outcome, Outcomes
from opserve_kernels.conformance.record import REASON_CHARACTERS, VERDICT_CHARACTERS, result_of
from opserve_kernels.verdict.verdict import GOOD, Status

SERVICE = "service:"
"""Prefix of the id of a run of the service, or of the name of a baseline."""
PLACES = f'folder or record file of a run, or "{SERVICE}" and a run or baseline of the service'
_VERDICTS = 3 * 2**19
"""Most characters of all verdicts of a run, so that the JSON body is within a service's limit. The
first failures have verdicts, later ones only a status and a reason."""


def check_history(target: str, access: Access) -> None:
    """Checks before hours of work that the service has a history for the target.

    Raises:
        InfrastructureError: No service is given.
        OpserveError: The service has no history, or is unreachable.
    """
    _check_service("history", access)
    with access.client() as client:
        client.conformance.list_runs(target, limit=1)


def send(record: RunRecord, target: str, access: Access) -> Run:
    """Adds a run to the history.

    Args:
        record: The run.
        target: Name of the run's target in the history.
        access: Access to the service.

    Raises:
        InfrastructureError: No service is given, or no target.
        OpserveError: The service rejected the run or is unreachable.
    """
    _check_service("history", access)
    if not target:
        raise InfrastructureError("A run in a folder needs a history to join: give --history.")
    header = record.header
    with access.client() as client:
        run = client.conformance.report_run(
            _reported(record.results),
            target=target,
            suite=header.suite,
            digest=header.digest,
            seed=header.seed,
            tool=f"opserve {header.tool}",
        )
    typer.echo(f"added run {run.id} to the history of {target}", err=True)
    return run


def send_or_keep(record: RunRecord, target: str, access: Access, folder: Path | None) -> None:
    """Adds a run to the history; after a failure, saves its record for a later attempt.

    Args:
        record: The run.
        target: Name of the run's target in the history.
        access: Access to the service.
        folder: Folder of the record; None means that it has none yet.

    Raises:
        InfrastructureError: The service does not have the run; the message has the command that
            sends it later.
    """
    try:
        send(record, target, access)
    except OpserveError as error:
        if folder is None:
            folder = Path(tempfile.mkdtemp(prefix="opserve-run-"))
            write_record(record, folder / RECORD_NAME)
        later = f"opserve conform send {folder} --server {access.address} --history {target}"
        raise InfrastructureError(
            f"history: {error}; the record is saved, send it later: {later}"
        ) from error


def outcomes_at(place: str, access: Access) -> Outcomes:
    """Returns the outcomes of a run: PLACES.

    Raises:
        InfrastructureError: No service is given.
        OpserveError: The service has no such run, or is unreachable.
        RecordError: The file is no record.
        OSError: The file cannot be read.
    """
    run = run_in(place)
    if run is None:
        return read_record(record_path(Path(place))).outcomes
    _check_service(place, access)
    with access.client() as client:
        found = client.conformance.get_run(run)
        results = client.conformance.list_results(found.id)
    by_case = {one.case: Outcome(status=Status(one.status), worst=one.worst) for one in results}
    return Outcomes(digest=found.digest, by_case=by_case, kernel_variant=found.kernel_variant)


COLUMNS = ("begun", "run", "target", "suite", "seed", "state", "results", "worst", "baselines")
"""Columns of the table of runs."""


def runs_on(target: str, access: Access, limit: int) -> list[Row]:
    """Returns the newest runs of the history, each with COLUMNS.

    Args:
        target: Target of the runs; "" means all.
        access: Access to the service.
        limit: Greatest number of runs.
    """
    with access.client() as client:
        runs = client.conformance.list_runs(target, limit=limit).runs
        baselines = client.conformance.list_baselines()
    return [_row(run, [one.name for one in baselines if one.run == run.id]) for run in runs]


def run_in(place: str) -> str | None:
    """Returns the id or name of a run of the service; None for a path."""
    return place.removeprefix(SERVICE) if place.startswith(SERVICE) else None


def _row(run: Run, names: Sequence[str]) -> Row:
    return {
        "begun": moment(run.created_at),
        "run": run.id,
        "target": run.target,
        "suite": run.suite,
        "seed": run.seed,
        "state": run.state,
        "results": ", ".join(f"{count.cases} {count.status}" for count in run.counts),
        "worst": run.worst,
        "baselines": ", ".join(names),
    }


def _check_service(option: str, access: Access) -> None:
    if not access.address:
        raise InfrastructureError(f"{option} needs a service: give --server too.")


def _reported(results: Iterable[Result]) -> Iterator[CaseResult]:
    left = _VERDICTS
    for one in results:
        result = result_of(one.verdict, seconds=one.seconds)
        size = len(result.verdict)
        has_verdict = one.verdict.status not in GOOD and size <= min(left, VERDICT_CHARACTERS)
        left -= size if has_verdict else 0
        verdict = result.verdict if has_verdict else ""
        reported = replace(result, reason=_one_line(result.reason), verdict=verdict)
        yield CaseResult(**asdict(reported))


def _one_line(reason: str) -> str:
    """Formats a reason on one line: a target's output may contain any characters."""
    line = " ".join(reason.split())
    return "".join(one if one.isprintable() else "?" for one in line)[:REASON_CHARACTERS]
