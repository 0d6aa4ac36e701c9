"""Runs of conformance suites, as they are kept: each is its tenant's alone."""

import json
from collections.abc import Sequence
from dataclasses import asdict, fields
from typing import Any

from sqlalchemy import ColumnElement, RowMapping, delete, insert, select, tuple_, update

from opserve_server.core.runs import CaseResult, Run, RunState
from opserve_server.core.session import DeterministicLevel
from opserve_server.store.database import Database
from opserve_server.store.tables import CONFORMANCE_RESULTS, CONFORMANCE_RUNS

_RUNS, _RESULTS = CONFORMANCE_RUNS, CONFORMANCE_RESULTS


class Runs:
    """The tables of runs and of their results."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def begin(self, run: Run, *, kept: int) -> None:
        """Adds a run; of those of its tenant the newest stay, as many as are kept."""
        mine = select(_RUNS.c.id).where(_RUNS.c.tenant == run.tenant)
        newest_first = mine.order_by(_RUNS.c.created_at.desc(), _RUNS.c.id.desc())
        async with self._database.append() as connection:
            await connection.execute(insert(_RUNS), [_row_of(run)])
            every = (await connection.execute(newest_first)).scalars().all()
            if old := every[kept:]:
                await connection.execute(delete(_RUNS).where(_RUNS.c.id.in_(old)))

    async def add(self, run: Run, results: Sequence[tuple[int, CaseResult]]) -> None:
        """How far a run is, and new results by their places in the suite."""
        rows = [{"run": run.id, "place": place} | asdict(result) for place, result in results]
        changed = update(_RUNS).where(_RUNS.c.id == run.id).values(_row_of(run))
        async with self._database.append() as connection:
            found = await connection.execute(changed)
            if rows and found.rowcount:  # it may have been forgotten meanwhile
                await connection.execute(insert(_RESULTS), rows)

    async def get(self, tenant: str, run: str) -> Run | None:
        """A run of a tenant's."""
        query = select(_RUNS).where(_RUNS.c.id == run, _RUNS.c.tenant == tenant)
        async with self._database.read() as connection:
            row = (await connection.execute(query)).mappings().first()
        return None if row is None else _run_of(row)

    async def of(
        self, tenant: str, *, target: str, before: Run | None, limit: int
    ) -> Sequence[Run]:
        """Runs of a tenant's, the newest first.

        Args:
            tenant: Whose.
            target: Only runs on this one; empty means on all.
            before: Only those that began before it.
            limit: How many at most.
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
        """Results of a run behind a place, in the suite's order; with a status those alone."""
        query = select(_RESULTS).where(_RESULTS.c.run == run, _RESULTS.c.place > after)
        if status:
            query = query.where(_RESULTS.c.status == status)
        names = [field.name for field in fields(CaseResult)]
        async with self._database.read() as connection:
            rows = await connection.execute(query.order_by(_RESULTS.c.place).limit(limit))
            return [
                (row["place"], CaseResult(**{name: row[name] for name in names}))
                for row in rows.mappings()
            ]


def _row_of(run: Run) -> dict[str, Any]:
    return asdict(run) | {
        "counts": json.dumps(dict(run.counts)),
        "standards": json.dumps(run.standards),
        "gates": json.dumps(run.gates),
        "deterministic_level": run.deterministic_level.value,
        "state": run.state.value,
    }


def _run_of(row: RowMapping) -> Run:
    values: dict[str, Any] = {field.name: row[field.name] for field in fields(Run)}
    values |= {
        "counts": json.loads(row["counts"]),
        "standards": tuple(json.loads(row["standards"])),
        "gates": tuple(json.loads(row["gates"])),
        "deterministic_level": DeterministicLevel(row["deterministic_level"]),
        "state": RunState(row["state"]),
    }
    return Run(**values)
