"""A run in the history of a service: sent there, and what others are compared with."""

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
"""Stands before the id of a run of the service, or the name of a baseline."""
PLACES = f'folder or record of a run, or "{SERVICE}" and a run or baseline of the service'
_VERDICTS = 3 * 2**19
"""Characters of all verdicts of a run, with which it is still a JSON body that a service takes:
the first failures have theirs, later ones a status and a reason."""


def check_history(target: str, access: Access) -> None:
    """Asks, before hours of work, whether the service would take a run.

    Raises:
        InfrastructureError: It would not.
    """
    _check_service("history", access)
    with access.client() as client:
        client.conformance.list_runs(target, limit=1)


def send(record: RunRecord, target: str, access: Access) -> Run:
    """Adds a run to the history.

    Args:
        record: The run.
        target: What the history calls that which was tried.
        access: The service.

    Raises:
        InfrastructureError: No service is named, or no target.
        OpserveError: It is not there.
    """
    _check_service("history", access)
    if not target:
        raise InfrastructureError("run: given one that is in no history, allowed with --history")
    header = record.header
    with access.client() as client:
        run = client.conformance.report_run(
            _told(record.results),
            target=target,
            suite=header.suite,
            digest=header.digest,
            seed=header.seed,
            tool=f"opserve {header.tool}",
        )
    typer.echo(f"run {run.id} is in the history of {target}", err=True)
    return run


def send_or_keep(record: RunRecord, target: str, access: Access, folder: Path | None) -> None:
    """Adds a run to the history; its record stays where it cannot be sent.

    Args:
        record: The run.
        target: What the history calls that which was tried.
        access: The service.
        folder: Where the record is; None means nowhere yet.

    Raises:
        InfrastructureError: It is not there; the message says how to send it later.
    """
    try:
        send(record, target, access)
    except OpserveError as error:
        if folder is None:
            folder = Path(tempfile.mkdtemp(prefix="opserve-run-"))
            write_record(record, folder / RECORD_NAME)
        later = f"opserve conform send {folder} --server {access.address} --history {target}"
        raise InfrastructureError(f"history: {error}; the record stays: {later}") from error


def outcomes_at(place: str, access: Access) -> Outcomes:
    """What became of the cases of a run: PLACES.

    Raises:
        InfrastructureError: No service is named.
        OpserveError: The service does not tell of such a run.
        RecordError: It is no record.
        OSError: It cannot be read.
    """
    run = run_in(place)
    if run is None:
        return read_record(record_path(Path(place))).outcomes
    _check_service(place, access)
    with access.client() as client:
        found = client.conformance.get_run(run)
        results = client.conformance.list_results(found.id)
    by_case = {one.case: Outcome(status=Status(one.status), worst=one.worst) for one in results}
    return Outcomes(digest=found.digest, by_case=by_case)


COLUMNS = ("begun", "run", "target", "suite", "seed", "state", "results", "worst", "baselines")
"""Of a run that is told."""


def runs_on(target: str, access: Access, limit: int) -> list[Row]:
    """The newest runs of the history, each with COLUMNS.

    Args:
        target: Only those of this one; "" means of all.
        access: The service.
        limit: How many at most.
    """
    with access.client() as client:
        runs = client.conformance.list_runs(target, limit=limit).runs
        baselines = client.conformance.list_baselines()
    return [_row(run, [one.name for one in baselines if one.run == run.id]) for run in runs]


def run_in(place: str) -> str | None:
    """The run of the service that a place names; None where it is a path."""
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


def _check_service(asked: str, access: Access) -> None:
    if not access.address:
        raise InfrastructureError(f"{asked}: given no service, allowed with --server")


def _told(results: Iterable[Result]) -> Iterator[CaseResult]:
    left = _VERDICTS
    for one in results:
        result = result_of(one.verdict, seconds=one.seconds)
        size = len(result.verdict)
        is_told = one.verdict.status not in GOOD and size <= min(left, VERDICT_CHARACTERS)
        left -= size if is_told else 0
        verdict = result.verdict if is_told else ""
        told = replace(result, reason=_one_line(result.reason), verdict=verdict)
        yield CaseResult(**asdict(told))


def _one_line(reason: str) -> str:
    """What a target said may be anything."""
    line = " ".join(reason.split())
    return "".join(one if one.isprintable() else "?" for one in line)[:REASON_CHARACTERS]
