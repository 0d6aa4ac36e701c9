"""Baselines in the store: runs with names given by their tenant."""

from collections.abc import Sequence
from dataclasses import asdict

from sqlalchemy import ColumnElement, RowMapping, delete, insert, select

from opserve_kernels.status import Status
from opserve_server.core.errors import HandleNotFound, LimitExceeded
from opserve_server.core.runs import Baseline
from opserve_server.store.database import Database
from opserve_server.store.tables import CONFORMANCE_BASELINES, CONFORMANCE_RUNS

_BASELINES, _RUNS = CONFORMANCE_BASELINES, CONFORMANCE_RUNS


class Baselines:
    """The table of baselines."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def set(self, tenant: str, baseline: Baseline, *, limit: int) -> None:
        """Names a run of a tenant; the name is removed from any other run.

        Raises:
            HandleNotFound: The tenant has no such run.
            LimitExceeded: The tenant has the maximum number of names.
        """
        run = select(_RUNS.c.id).where(_RUNS.c.id == baseline.run, _RUNS.c.tenant == tenant)
        names = select(_BASELINES.c.name).where(_BASELINES.c.tenant == tenant)
        async with self._database.append() as connection:
            # Locked, so that the run is not deleted meanwhile.
            if (await connection.execute(run.with_for_update())).first() is None:
                raise HandleNotFound("run", baseline.run, allowed="a run of the caller's tenant")
            others = set((await connection.execute(names)).scalars()) - {baseline.name}
            if len(others) >= limit:
                raise _too_many(len(others), limit)
            await connection.execute(delete(_BASELINES).where(*_named(tenant, baseline.name)))
            await connection.execute(insert(_BASELINES), [{"tenant": tenant} | asdict(baseline)])

    async def of(self, tenant: str) -> Sequence[Baseline]:
        """Baselines of a tenant, by name."""
        mine = select(_BASELINES).where(_BASELINES.c.tenant == tenant)
        async with self._database.read() as connection:
            found = [_baseline_of(row) for row in (await connection.execute(mine)).mappings()]
        return sorted(found, key=lambda baseline: baseline.name)

    async def get(self, tenant: str, name: str) -> Baseline | None:
        """The baseline of a name."""
        query = select(_BASELINES).where(*_named(tenant, name))
        async with self._database.read() as connection:
            row = (await connection.execute(query)).mappings().first()
        return None if row is None else _baseline_of(row)

    async def delete(self, tenant: str, name: str) -> None:
        """Deletes a name, if it exists."""
        async with self._database.append() as connection:
            await connection.execute(delete(_BASELINES).where(*_named(tenant, name)))


def _named(tenant: str, name: str) -> tuple[ColumnElement[bool], ...]:
    return _BASELINES.c.tenant == tenant, _BASELINES.c.name == name


def _baseline_of(row: RowMapping) -> Baseline:
    return Baseline(name=row["name"], run=row["run"], set_at=row["set_at"])


def _too_many(given: int, allowed: int) -> LimitExceeded:
    return LimitExceeded(
        Status.ACL_ERROR_RT_OVER_LIMIT,
        f"This tenant has {given} baselines, and the limit is {allowed}: delete one first.",
        parameter="baseline",
        given=f"another beside {given}",
        allowed=allowed,
    )
