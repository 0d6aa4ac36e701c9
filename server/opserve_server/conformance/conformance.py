"""Verdicts on outputs of others: cases, their inputs, what must come out, and whether it did."""

import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from functools import partial
from typing import TypeVar

from opserve_kernels.cases.case import Case, canonical
from opserve_kernels.cases.fill import Array
from opserve_kernels.cases.suites import SUITES
from opserve_kernels.status import DeconvStatus, Status, TbeStatus
from opserve_kernels.verdict.json_form import to_json
from opserve_kernels.verdict.judge_case import judge_code
from opserve_kernels.verdict.verdict import Code
from opserve_server.calls import caller, malformed
from opserve_server.conformance import tasks
from opserve_server.conformance.arbiter import Arbiter
from opserve_server.conformance.calls import (
    CasePage,
    GetCase,
    GetGolden,
    GetInputs,
    ListCases,
    ListSuites,
    OfCase,
    OfRun,
    OneCase,
    OneRun,
    ResultPage,
    RunPage,
    SuiteInfo,
    Suites,
    Verified,
    Verify,
)
from opserve_server.conformance.choice import (
    TEXT_LIMIT,
    check_filters,
    check_suite,
    check_text,
    page_limit,
)
from opserve_server.conformance.desk import Desk
from opserve_server.conformance.runs import SuiteRuns
from opserve_server.core.errors import HandleNotFound
from opserve_server.core.service import Service

ResultT = TypeVar("ResultT")
CASES, CASES_LIMIT = 100, 1000
"""Cases of a page: where nobody says how many, and at most."""
_PIECE_BYTES = 256 * 1024
_FAMILIES = (DeconvStatus, TbeStatus, Status)
_NAMES = {str(status.value): status.name for family in _FAMILIES for status in family}
"""Of statuses by their numbers."""


class Conformance:
    """The calls of conformance, for whoever calls (calls.caller).

    Args:
        service: Counts what is under way.
        desk: Where is drawn and judged.
        arbiter: Knows what must come out.
        runs: Suites on devices of the service.

    Attributes:
        array_limits: Bounds on an .npz of outputs.
    """

    def __init__(self, service: Service, desk: Desk, arbiter: Arbiter, runs: SuiteRuns) -> None:
        self._service, self._desk = service, desk
        self._arbiter, self._runs = arbiter, runs
        self.array_limits = arbiter.limits.arrays

    async def run(
        self, request: ListSuites | ListCases | GetCase | OfRun
    ) -> Suites | CasePage | OneCase | OneRun | RunPage | ResultPage:
        """Carries out a call without arrays, and gives its answer as ANSWERS tells.

        Raises:
            HandleNotFound: 107017, there is no such suite or case.
            InvalidArgument: 100000, something is out of bounds.
        """
        match request:
            case ListSuites():
                return Suites(
                    suites=[
                        SuiteInfo(name=name, summary=str(suite.__doc__))
                        for name, suite in SUITES.items()
                    ]
                )
            case ListCases():
                return await self._page(request)
            case GetCase():
                async with self._desk.turn(caller().tenant):
                    case = await self._case(request)
                return OneCase(definition=canonical(case.to_json()))
            case _:
                return await self._runs.run(request)

    async def archive(self, asked: GetInputs | GetGolden) -> AsyncGenerator[bytes]:
        """The .npz file that is asked for, in pieces; it has none of a call that must be refused.

        Golden values have values.NAME of each output and magnitudes.NAME of its sums.
        """
        async with self._desk.turn(caller().tenant):
            case = await self._case(asked)
            if case.is_refused:
                allowed = "a case that must succeed: this one has no arrays"
                raise HandleNotFound("case", case.id, allowed=allowed)
            self._arbiter.check_size(case)
            if isinstance(asked, GetInputs):
                data = await self._desk.do(tasks.inputs_of, case, asked.seed)
            else:
                data = await self._arbiter.settled(
                    caller(), self._arbiter.sought(case, asked.seed), tasks.golden_of
                )
        with self._service.accounts.of(caller().tenant).in_flight(len(data)):
            for start in range(0, len(data), _PIECE_BYTES):
                yield data[start : start + _PIECE_BYTES]

    async def verify(
        self, asked: Verify, read: Callable[[], Awaitable[Mapping[str, Array]]]
    ) -> Verified:
        """The verdict on outputs.

        Args:
            asked: Of which case.
            read: Unpacks them, once the caller has its turn.
        """
        code = _code(asked.code) if asked.code else None
        async with self._desk.turn(caller().tenant):
            case = await self._case(asked)
            sought = self._arbiter.sought(case, asked.seed)
            if case.is_refused or code is not None:
                verdict = judge_code(case, code, sought.contract)
            else:
                self._arbiter.check_size(case)
                judge = partial(tasks.verdict_on, outputs=await read())
                verdict = await self._arbiter.settled(caller(), sought, judge)
        return Verified(
            case=case.id,
            status=verdict.status.value,
            reason=verdict.reason,
            verdict=json.dumps(to_json(verdict), allow_nan=False),
        )

    async def _page(self, asked: ListCases) -> CasePage:
        check_suite(asked.suite, asked.seed)
        check_filters(asked.operator, asked.match)
        check_text("cursor", asked.cursor)
        limit = page_limit(asked.limit, CASES, most=CASES_LIMIT)
        async with self._desk.turn(caller().tenant):
            page = await self._desk.do(tasks.page_of, asked, limit)
        if page is None:
            raise malformed("cursor", given=asked.cursor, allowed="the cursor of a page")
        return page

    async def _case(self, asked: OfCase) -> Case:
        check_suite(asked.suite, asked.seed)
        case = await self._desk.do(tasks.case_in, asked.suite, asked.seed, asked.case)
        if case is None:
            allowed = f"a case of suite {asked.suite} with seed {asked.seed}"
            raise HandleNotFound("case", asked.case[:TEXT_LIMIT], allowed=allowed)
        return case


def _code(given: str) -> Code:
    """A status by its name or number."""
    check_text("code", given)
    return Code(name=_NAMES.get(given, given))
