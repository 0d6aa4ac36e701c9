"""Conformance calls: cases, inputs, expected values, and verdicts on submitted outputs."""

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from functools import partial
from typing import TypeVar

from opserve_kernels.cases.case import Case, canonical
from opserve_kernels.cases.fill import Array
from opserve_kernels.cases.suites import SUITES
from opserve_kernels.conformance.trial import settled
from opserve_kernels.status import DeconvStatus, Status, TbeStatus
from opserve_kernels.verdict.json_form import to_json
from opserve_kernels.verdict.judge_case import judge_code, standards_of
from opserve_kernels.verdict.verdict import Code, Verdict
from opserve_server.calls import caller, malformed
from opserve_server.conformance import tasks
from opserve_server.conformance.answers import (
    AllBaselines,
    CasePage,
    CasesRead,
    Definition,
    OneBaseline,
    OneCase,
    OneRun,
    ResultPage,
    RunChanges,
    RunPage,
    Submitted,
    SuiteInfo,
    Suites,
    Verified,
)
from opserve_server.conformance.calls import (
    GetCase,
    GetGolden,
    GetInputs,
    ListCases,
    ListSuites,
    OfAnyCase,
    OfHistory,
    OfRun,
    ReadCases,
    SubmitOutputs,
    Verify,
)
from opserve_server.conformance.definitions import cases_in, own_case
from opserve_server.conformance.history import History
from opserve_server.conformance.reference import ReferenceDevice, WorkersBackend
from opserve_server.conformance.request_checks import (
    TEXT_LIMIT,
    check_digests,
    check_lines,
    check_own,
    check_suite,
    check_text,
    page_limit,
    selection_of,
)
from opserve_server.conformance.submissions import SubmissionCaches, submission_of
from opserve_server.conformance.workers import ConformanceWorkers
from opserve_server.core.errors import HandleNotFound
from opserve_server.core.service import Service
from opserve_server.core.waiting import to_its_end

ResultT = TypeVar("ResultT")
OfCases = Suites | CasePage | OneCase | CasesRead | Submitted
OfRuns = OneRun | RunPage | ResultPage | OneBaseline | AllBaselines | RunChanges
Read = Callable[[], Awaitable[Mapping[str, Array]]]
CASES, CASES_LIMIT = 100, 1000
"""Cases of a page: the default and the maximum."""
_PIECE_BYTES = 256 * 1024
_FAMILIES = (DeconvStatus, TbeStatus, Status)
_NAMES = {str(status.value): status.name for family in _FAMILIES for status in family}
"""Names of statuses by their numbers."""


class Conformance:
    """The conformance calls, for the current caller (calls.caller).

    Args:
        service: The core, which counts bytes in flight.
        workers: Processes that draw inputs and judge outputs.
        reference: Device for expected values.
        history: Runs of suites.

    Attributes:
        array_limits: Bounds on an .npz of outputs.
        report_bytes_limit: Bytes of a reported run.
    """

    def __init__(
        self,
        service: Service,
        workers: ConformanceWorkers,
        reference: ReferenceDevice,
        history: History,
    ) -> None:
        self._service, self._workers = service, workers
        self._reference, self._history = reference, history
        self.array_limits = reference.limits.arrays
        self.report_bytes_limit = history.limits.report_bytes
        limits = reference.limits
        self._submissions = SubmissionCaches(
            limits.sent_total_bytes, tenant_limit_bytes=limits.sent_bytes
        )

    async def run(
        self,
        request: ListSuites | ListCases | GetCase | ReadCases | SubmitOutputs | OfRun | OfHistory,
    ) -> OfCases | OfRuns:
        """Executes a call without arrays and returns its answer; ANSWERS maps requests to answers.

        Raises:
            HandleNotFound: 107017, there is no such suite or case.
            InvalidArgument: 100000, a value is out of bounds.
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
                async with self._workers.turn(caller().tenant):
                    case = await self._case(request)
                return OneCase(definition=Definition(canonical(case.to_json())))
            case ReadCases():
                check_lines(request)
                async with self._workers.turn(caller().tenant):
                    return await self._workers.do(cases_in, request)
            case SubmitOutputs():
                return await self._submit(request, _nothing)
            case _:
                return await self._history.run(request)

    async def archive(self, request: GetInputs | GetGolden) -> AsyncGenerator[bytes]:
        """The requested .npz file in pieces; a case that must be rejected has no arrays.

        A file of expected values has values.NAME of each output and magnitudes.NAME of its sums.
        """
        async with self._workers.turn(caller().tenant):
            case = await self._case(request)
            if case.is_refused:
                allowed = "a case that must succeed: this one has no arrays"
                message = (
                    f"Case {case.id} has no arrays, because it must fail: use one that succeeds."
                )
                raise HandleNotFound("case", case.id, allowed=allowed, message=message)
            self._reference.check_size(case)
            if isinstance(request, GetInputs):
                data = await self._workers.do(tasks.inputs_of, case, request.seed)
            else:
                task = self._reference.task(case, request.seed)
                data = await settled(self._backend(), task, tasks.expected_of)
        with self._service.accounts.of(caller().tenant).in_flight(len(data)):
            for start in range(0, len(data), _PIECE_BYTES):
                yield data[start : start + _PIECE_BYTES].tobytes()

    async def verify(self, request: Verify, read: Read) -> Verified:
        """The verdict on outputs.

        Args:
            request: Names the case.
            read: Unpacks the outputs, once the tenant's turn has come.

        Raises:
            HandleNotFound: 107017, there is no such case, or an output given only by its digest is
                not kept.
        """
        code = _code(request.code) if request.code else None
        answer = await self._submit(request, read, code)
        if answer.verified is None:
            allowed = "digests of outputs that were sent before and are still kept"
            names = ", ".join(answer.missing)
            message = f"The service does not keep the outputs {names} any more: send their bytes."
            raise HandleNotFound("digests", f"that of {names}", allowed=allowed, message=message)
        return answer.verified

    async def _submit(
        self, request: SubmitOutputs | Verify, read: Read, code: Code | None = None
    ) -> Submitted:
        check_digests(request.digests, self.array_limits.arrays)
        standards = standards_of(request.standards, request.gates)
        sent = self._submissions.of(self._service.accounts.of(caller().tenant))
        async with self._workers.turn(caller().tenant):
            case = await self._case(request)
            task = self._reference.task(case, request.seed, standards)
            if case.is_refused or code is not None:
                refusal = _verified(judge_code(case, code, task.contract))
                return Submitted(verified=refusal, missing=())
            self._reference.check_size(case)
            reading = asyncio.to_thread(submission_of, case, await read(), request.digests)
            given = await to_its_end(reading)
            verified = sent.verdict(task, given)
            if verified is None:
                outputs = sent.outputs(given)
                if missing := sorted(given.digests.keys() - outputs.keys()):
                    return Submitted(verified=None, missing=missing)
                judge = partial(tasks.verdict_on_outputs, outputs=outputs)
                verified = _verified(await settled(self._backend(), task, judge))
            sent.keep(task, given, verified)
            self._submissions.make_room()
        return Submitted(verified=verified, missing=())

    async def _page(self, request: ListCases) -> CasePage:
        check_suite(request.suite, request.seed)
        selection_of(request)
        check_text("cursor", request.cursor)
        limit = page_limit(request.limit, CASES, most=CASES_LIMIT)
        async with self._workers.turn(caller().tenant):
            page = await self._workers.do(tasks.page_of, request, limit)
        if page is None:
            raise malformed("cursor", given=request.cursor, allowed="the cursor of a page")
        return page

    async def _case(self, request: GetCase | OfAnyCase) -> Case:
        if not isinstance(request, GetCase) and (request.definition or not request.suite):
            return await self._own_case(request)
        check_suite(request.suite, request.seed)
        case = await self._workers.do(tasks.case_in, request.suite, request.seed, request.case)
        if case is None:
            allowed = f"a case of suite {request.suite} with seed {request.seed}"
            raise HandleNotFound("case", request.case[:TEXT_LIMIT], allowed=allowed)
        return case

    def _backend(self) -> WorkersBackend:
        return self._reference.backend(self._workers, caller())

    async def _own_case(self, request: OfAnyCase) -> Case:
        check_own(request)
        return await self._workers.do(own_case, request.definition)


async def _nothing() -> Mapping[str, Array]:
    return {}


def _verified(verdict: Verdict) -> Verified:
    return Verified(
        case=verdict.case,
        status=verdict.status.value,
        reason=verdict.reason,
        verdict=json.dumps(to_json(verdict), allow_nan=False),
    )


def _code(given: str) -> Code:
    """The status of its name or number."""
    check_text("code", given)
    return Code(name=_NAMES.get(given, given))
