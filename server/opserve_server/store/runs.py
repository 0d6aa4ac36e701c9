"""Conformance runs in the store, each visible to its tenant only."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from itertools import accumulate
from typing import Any

from sqlalchemy import ColumnElement, RowMapping, delete, func, insert, select, tuple_, update
from sqlalchemy.ext.asyncio import AsyncConnection

from opserve_kernels.conformance.comparison import Outcome
from opserve_kernels.conformance.record import CaseResult
from opserve_kernels.operator import Accuracy, DocumentedRules
from opserve_kernels.verdict.verdict import Status
from opserve_server.core.runs import Origin, Run, RunState
from opserve_server.core.session import DeterministicLevel
from opserve_server.store.baselines import Baselines
from opserve_server.store.database import Database
from opserve_server.store.tables import (
    CONFORMANCE_BASELINES,
    CONFORMANCE_RESULTS,
    CONFORMANCE_RUNS,
)

_RUNS, _RESULTS, _BASELINES = CONFORMANCE_RUNS, CONFORMANCE_RESULTS, CONFORMANCE_BASELINES
_ROWS = 500  # per statement: the front's loop handles them in some milliseconds
_PAGE_BYTES = 2**20  # of the verdicts and reasons of one page
_CHARACTER_BYTES = 4  # of a reason, at most; a verdict is ASCII


class Runs:
    """The tables of runs and of their results.

    Attributes:
        baselines: Runs by name.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self.baselines = Baselines(database)

    async def begin(self, run: Run, results: Sequence[CaseResult] = (), *, kept: int) -> None:
        """Adds a run with its known results: completely or not at all.

        The newest runs of the tenant are kept, up to the limit, and all named runs.
        """
        async with self._database.append() as connection:
            await connection.execute(insert(_RUNS), [_row_of(run)])
            for first in range(0, len(results), _ROWS):
                part = enumerate(results[first : first + _ROWS], first)
                rows = [{"run": run.id, "place": place} | asdict(one) for place, one in part]
                await connection.execute(insert(_RESULTS), rows)
            await _forget_old(connection, run.tenant, kept)

    async def add(self, run: Run, results: Sequence[tuple[int, CaseResult]]) -> None:
        """Updates a run, and adds results by their positions in the suite."""
        rows = [{"run": run.id, "place": place} | asdict(result) for place, result in results]
        changed = update(_RUNS).where(_RUNS.c.id == run.id).values(_row_of(run))
        async with self._database.append() as connection:
            found = await connection.execute(changed)
            if rows and found.rowcount:  # the run may have been deleted meanwhile
                await connection.execute(insert(_RESULTS), rows)

    async def get(self, tenant: str, run: str) -> Run | None:
        """A run of a tenant."""
        query = select(_RUNS).where(_RUNS.c.id == run, _RUNS.c.tenant == tenant)
        async with self._database.read() as connection:
            row = (await connection.execute(query)).mappings().first()
        return None if row is None else _run_of(row)

    async def of(
        self, tenant: str, *, target: str, before: Run | None, limit: int
    ) -> Sequence[Run]:
        """Runs of a tenant, the newest first.

        Args:
            tenant: The tenant.
            target: Only runs on this target; empty: on all.
            before: Only runs that began before this one.
            limit: Maximum number.
        """
        conditions: list[ColumnElement[bool]] = [_RUNS.c.tenant == tenant]
        if target:
            conditions.append(_RUNS.c.target == target)
        if before is not None:
            place = tuple_(_RUNS.c.created_at, _RUNS.c.id)
            conditions.append(place < tuple_(before.created_at, before.id))
        newest_first = select(_RUNS).order_by(_RUNS.c.created_at.desc(), _RUNS.c.id.desc())
        async with self._database.read() as connection:
            rows = await connection.execute(newest_first.where(*conditions).limit(limit))
            return [_run_of(row) for row in rows.mappings()]

    async def results(
        self, run: str, *, status: str, after: int, limit: int
    ) -> Sequence[tuple[int, CaseResult]]:
        """Results of a run after a position, in the suite's order; with a status only those.

        There are fewer than the limit, but at least one, where their verdicts are long.
        """
        query = select(_RESULTS).where(_RESULTS.c.run == run, _RESULTS.c.place > after)
        if status:
            query = query.where(_RESULTS.c.status == status)
        names = [field.name for field in fields(CaseResult)]
        page = query.order_by(_RESULTS.c.place).limit(limit)
        async with self._database.read() as connection:
            reason_bytes = _CHARACTER_BYTES * func.length(_RESULTS.c.reason)
            sizes = page.with_only_columns(func.length(_RESULTS.c.verdict) + reason_bytes)
            fits = _fitting((await connection.execute(sizes)).scalars().all())
            rows = await connection.execute(page.limit(fits))
            return [
                (row["place"], CaseResult(**{name: row[name] for name in names}))
                for row in rows.mappings()
            ]

    async def outcomes(self, run: str) -> Mapping[str, Outcome]:
        """Outcome of each case of a run, in the suite's order."""
        columns = select(_RESULTS.c.place, _RESULTS.c.case, _RESULTS.c.status, _RESULTS.c.worst)
        page = columns.where(_RESULTS.c.run == run).order_by(_RESULTS.c.place).limit(_ROWS)
        found: dict[str, Outcome] = {}
        async with self._database.read() as connection:
            after = -1
            while rows := (await connection.execute(page.where(_RESULTS.c.place > after))).all():
                for after, case, status, worst in rows:  # noqa: B007  # the last one stays
                    found[case] = Outcome(status=Status(status), worst=worst)
        return found


async def _forget_old(connection: AsyncConnection, tenant: str, kept: int) -> None:
    """Deletes old runs; they are locked before names are looked up, so that none is named then."""
    mine = select(_RUNS.c.id).where(_RUNS.c.tenant == tenant)
    newest_first = mine.order_by(_RUNS.c.created_at.desc(), _RUNS.c.id.desc())
    locked = newest_first.offset(kept).with_for_update()
    old = (await connection.execute(locked)).scalars().all()
    if old:
        named = select(_BASELINES.c.run).where(_BASELINES.c.tenant == tenant)
        gone = delete(_RUNS).where(_RUNS.c.id.in_(old), _RUNS.c.id.not_in(named))
        await connection.execute(gone)


def _fitting(sizes: Sequence[int]) -> int:
    """Number of texts of these sizes on one page: the first, and others up to the limit."""
    ends = accumulate(sizes)
    return max(1, sum(end <= _PAGE_BYTES for end in ends))


def _row_of(run: Run) -> dict[str, Any]:
    return asdict(run) | {
        "counts": json.dumps(dict(run.counts)),
        "standards": json.dumps(run.standards),
        "gates": json.dumps(run.gates),
        "deterministic_level": run.deterministic_level.value,
        "accuracy": run.accuracy.value,
        "documented_rules": run.documented_rules.value,
        "state": run.state.value,
        "origin": run.origin.value,
    }


def _run_of(row: RowMapping) -> Run:
    values: dict[str, Any] = {field.name: row[field.name] for field in fields(Run)}
    values |= {
        "counts": json.loads(row["counts"]),
        "standards": tuple(json.loads(row["standards"])),
        "gates": tuple(json.loads(row["gates"])),
        "deterministic_level": DeterministicLevel(row["deterministic_level"]),
        "accuracy": Accuracy(row["accuracy"]),
        "documented_rules": DocumentedRules(row["documented_rules"]),
        "state": RunState(row["state"]),
        "origin": Origin(row["origin"]),
    }
    return Run(**values)
