"""Runs as items of watches."""

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass

from opserve_server.conformance.answers import RunInfo
from opserve_server.conformance.runs import SuiteRuns
from opserve_server.core.errors import StoreUnavailable
from opserve_server.core.runs import Run
from opserve_server.core.watches import Audience

READ_LIMIT_S = 0.5
"""Seconds for which the watches wait for the store; until it answers, older runs are shown."""

log = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class _Page:
    """The newest runs of a tenant, as of a number of changes."""

    changes: int = -1
    runs: tuple[Run, ...] = ()


class WatchedRuns:
    """The newest runs of each watching tenant, read from the store after a change alone.

    Args:
        runs: The runs.
    """

    def __init__(self, runs: SuiteRuns) -> None:
        self._runs = runs
        self._pages: dict[str, _Page] = {}

    async def read(self, audience: Audience) -> Mapping[str, RunInfo]:
        """The runs of a tenant by id."""
        tenant = audience.tenant
        page, changes = self._pages.setdefault(tenant, _Page()), self._runs.changes[tenant]
        if page.changes != changes:
            try:
                async with asyncio.timeout(READ_LIMIT_S):
                    page.runs = tuple(await self._runs.newest(tenant))
                page.changes = changes
            except (TimeoutError, StoreUnavailable):
                log.debug("runs were not read from the store")
        return {run.id: self._runs.info(self._runs.current(run)) for run in page.runs}
