"""Conformance: whether outputs that another implementation computed are right."""

from collections.abc import Iterable, Mapping, Sequence

from numpy.typing import ArrayLike

from opserve.digests import digest_of
from opserve.v1 import conformance_service_pb2 as conformance
from opserve_client._async.connection import AsyncConnection
from opserve_client.arguments import (
    ACCURACIES,
    DOCUMENTED_RULES,
    AccuracyName,
    DeterministicLevelName,
    DocumentedRulesName,
    choice,
    text,
)
from opserve_client.array_files import packed, plain, unpacked
from opserve_client.errors import OpserveError
from opserve_client.request_forms import named, request_of
from opserve_client.tensors import Array
from opserve_client.wire import conformance_methods as methods
from opserve_client.wire.chunks import report_messages
from opserve_client.wire.methods import RequestT
from opserve_kernels.status import Status

_PAGE = 1000
_DIGESTS_PAY_BYTES = 256 * 2**10
"""Of outputs: at 100 Mbit/s they take 20 ms, about as long as to ask whether they are needed."""


class AsyncConformance:
    """Cases, what must come of them, and verdicts; see AsyncClient.conformance.

    A case is named by its id in a suite, "smoke", "standard" or "exhaustive", that a seed makes.
    A definition names a case that no suite has: JSON as in docs/reference/conformance-cases.md.
    """

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def list_suites(self) -> list[conformance.Suite]:
        """The suites that the operators' contracts make."""
        request = conformance.ListSuitesRequest()
        return list((await self._connection.call(methods.LIST_SUITES, request)).suites)

    async def list_cases(
        self, suite: str = "standard", *, seed: int = 0, operator: str = "", match: str = ""
    ) -> list[conformance.CaseInfo]:
        """Cases of a suite, in its order.

        Args:
            suite: Its name.
            seed: Of the shapes that are drawn.
            operator: Only cases of this one; "" means all.
            match: Only cases whose id, source or tag is like it (*, ?); "" means all.
        """
        request = request_of(
            conformance.ListCasesRequest,
            suite=named(suite, parameter="suite"),
            seed=seed,
            operator=operator,
            match=match,
            limit=_PAGE,
        )
        cases: list[conformance.CaseInfo] = []
        while True:
            page = await self._connection.call(methods.LIST_CASES, request)
            cases += page.cases
            if not page.cursor:
                return cases
            request.cursor = page.cursor

    async def get_case(self, case: str, *, suite: str = "standard", seed: int = 0) -> str:
        """The line of JSON that a suite has of a case."""
        request = request_of(
            conformance.GetCaseRequest,
            suite=named(suite, parameter="suite"),
            case=named(case, parameter="case"),
            seed=seed,
        )
        return (await self._connection.call(methods.GET_CASE, request)).definition

    async def read_cases(
        self, form: str, lines: str, *, profile: str = "", fill: str = ""
    ) -> conformance.ReadCasesResponse:
        """Definitions of the cases that lines make, and the lines that make none.

        Args:
            form: "benchdnn", problem strings; "miopen", command lines of MIOpenDriver; "json",
                definitions.
            lines: Up to 400 of them.
            profile: Of the calls that problems and commands become; "" means ascend910b.
            fill: How their inputs are filled, such as "normal"; "" means "integer".

        Raises:
            AclrtError: 100000, there is no such form, profile or fill.
        """
        request = request_of(
            conformance.ReadCasesRequest, form=form, text=lines, profile=profile, fill=fill
        )
        return await self._connection.call(methods.READ_CASES, request)

    async def get_inputs(
        self, case: str, *, suite: str = "standard", seed: int = 0
    ) -> dict[str, Array]:
        """The inputs of a case, in a suite or an own one; bits of BF16 are uint16."""
        request = _of_case(conformance.GetInputsRequest, case, suite=suite, seed=seed)
        method = methods.GET_OWN_INPUTS if request.definition else methods.GET_INPUTS
        return unpacked(await self._connection.archive(method, request))

    async def get_golden(
        self, case: str, *, suite: str = "standard", seed: int = 0
    ) -> dict[str, Array]:
        """What each output must be, "values.NAME", and "magnitudes.NAME" of its sums, float64.

        Args:
            case: Its id, or the definition of an own one.
            suite: That has the id.
            seed: That the inputs are drawn by.
        """
        request = _of_case(conformance.GetGoldenRequest, case, suite=suite, seed=seed)
        method = methods.GET_OWN_GOLDEN if request.definition else methods.GET_GOLDEN
        return unpacked(await self._connection.archive(method, request))

    async def verify(  # noqa: PLR0913  # each by name
        self,
        case: str,
        outputs: Mapping[str, ArrayLike],
        *,
        suite: str = "standard",
        seed: int = 0,
        code: str = "",
        standards: Sequence[str] = (),
        gates: Sequence[str] = (),
    ) -> conformance.VerifyResponse:
        """The verdict on outputs of a case; of many bytes, those travel that the service lacks.

        Args:
            case: Its id, or the definition of an own one.
            outputs: By name; those that are missing were not written.
            suite: That has the id.
            seed: That the inputs were drawn by.
            code: The status that the call was refused with, its name or number; "" if it was not.
            standards: Told beside the layers, such as "torch-assert-close".
            gates: The same, and an output that one of them applies to fails unless it meets it.

        Raises:
            AclrtError: 107017, the suite has no such case; 100000, the definition is of no call
                that does what it says; 207012, the case is too large for the service.
        """
        request = _of_case(
            conformance.VerifyRequest,
            case,
            suite=suite,
            seed=seed,
            code=code,
            standards=standards,
            gates=gates,
        )
        arrays = plain(outputs)
        if code or sum(array.nbytes for array in arrays.values()) < _DIGESTS_PAY_BYTES:
            return await self._connection.verify(request, packed(arrays))
        return await self._verify_by_digests(request, arrays)

    async def run_suite(  # noqa: PLR0913  # each by name
        self,
        suite: str,
        *,
        target: str,
        seed: int = 0,
        profile: str = "",
        operator: str = "",
        match: str = "",
        repeats: int = 1,
        standards: Sequence[str] = (),
        gates: Sequence[str] = (),
        deterministic_level: DeterministicLevelName = "off",
        definitions: Sequence[str] = (),
        accuracy: AccuracyName = "direct",
        documented_rules: DocumentedRulesName = "error",
    ) -> conformance.Run:
        """Tries a suite on devices of the service; returns at once, and the run goes on.

        Args:
            suite: Its name; with definitions, a name for them.
            target: What the history calls that which is tried.
            seed: That the suite is made and its inputs are drawn by.
            profile: Only cases of this one; "" means of all.
            operator: Only cases of this one; "" means of all.
            match: Only cases whose id, source or tag is like it (*, ?); "" means all.
            repeats: Equal calls of each case, whose bits must be equal, up to 10.
            standards: Told beside the layers, by name.
            gates: The same, and an output that one of them applies to fails unless it meets it.
            deterministic_level: Of its sessions; "off" is what a session has by default.
            definitions: Own cases instead of a suite's.
            accuracy: Error bound of its sessions' results.
            documented_rules: Answer of its sessions to a call that breaks a rule of the vendor's
                page alone.

        Raises:
            AclrtError: 100000, a definition is none; 207012, too many runs of the tenant are at
                work; 507901, the service has no store.
        """
        request = request_of(
            conformance.RunSuiteRequest,
            suite=named(suite, parameter="suite"),
            target=named(target, parameter="target"),
            seed=seed,
            profile=profile,
            operator=operator,
            match=match,
            repeats=repeats,
            standards=standards,
            gates=gates,
            deterministic_level=text(deterministic_level, parameter="deterministic_level").upper(),
            definitions=definitions,
            accuracy=choice(accuracy, ACCURACIES, parameter="accuracy"),
            documented_rules=choice(
                documented_rules, DOCUMENTED_RULES, parameter="documented_rules"
            ),
        )
        return (await self._connection.call(methods.RUN_SUITE, request)).run

    async def get_run(self, run: str, *, wait_s: float = 0.0) -> conformance.Run:
        """How far a run is, by its id.

        Args:
            run: Its id.
            wait_s: Waits for its end, so many seconds at most, up to 60.
        """
        request = request_of(
            conformance.GetRunRequest, run=named(run, parameter="run"), wait_s=wait_s
        )
        return (await self._connection.call(methods.GET_RUN, request)).run

    async def cancel_run(self, run: str) -> conformance.Run:
        """Ends a run; what is judged stays."""
        request = request_of(conformance.CancelRunRequest, run=named(run, parameter="run"))
        return (await self._connection.call(methods.CANCEL_RUN, request)).run

    async def list_runs(
        self, target: str = "", *, cursor: str = "", limit: int = 0
    ) -> conformance.ListRunsResponse:
        """A page of the tenant's runs, the newest first.

        Args:
            target: Only runs on this one; "" means on all.
            cursor: Of the page before this one; "" means the newest.
            limit: Runs at most, up to 200; 0 means 20.
        """
        request = request_of(conformance.ListRunsRequest, target=target, cursor=cursor, limit=limit)
        return await self._connection.call(methods.LIST_RUNS, request)

    async def list_results(self, run: str, *, status: str = "") -> list[conformance.CaseResult]:
        """What became of a run's cases, in the suite's order.

        Args:
            run: Its id.
            status: Only cases with this one, such as "FAILED"; "" means with any.
        """
        request = request_of(
            conformance.ListResultsRequest,
            run=named(run, parameter="run"),
            status=status,
            limit=_PAGE,
        )
        results: list[conformance.CaseResult] = []
        while True:
            page = await self._connection.call(methods.LIST_RESULTS, request)
            results += page.results
            if not page.cursor:
                return results
            request.cursor = page.cursor

    async def report_run(
        self,
        results: Iterable[conformance.CaseResult],
        *,
        target: str,
        suite: str,
        digest: str,
        seed: int = 0,
        tool: str = "",
    ) -> conformance.Run:
        """Adds a run that was judged elsewhere to the history: all of it, or nothing.

        Args:
            results: In the suite's order; verdicts may be "".
            target: What the history calls that which was tried.
            suite: Its name, also of one that the service does not know.
            digest: Of the whole suite: "sha256:" and 64 hexadecimal digits.
            seed: That its inputs were drawn by.
            tool: What judged.

        Raises:
            AclrtError: 207012, there are too many results or bytes; 507901, the service has no
                store.
        """
        request = request_of(
            conformance.ReportRunRequest,
            target=named(target, parameter="target"),
            suite=named(suite, parameter="suite"),
            digest=digest,
            seed=seed,
            tool=tool,
        )
        return (await self._connection.report(list(report_messages(request, results)))).run

    async def set_baseline(self, name: str, run: str) -> conformance.Baseline:
        """Gives a name to a run that has ended, or a name to another run; it is not forgotten.

        Args:
            name: Wherever a run is asked for, it stands for this one.
            run: Its id, or the name of another baseline.
        """
        request = request_of(
            conformance.SetBaselineRequest,
            name=named(name, parameter="name"),
            run=named(run, parameter="run"),
        )
        return (await self._connection.call(methods.SET_BASELINE, request)).baseline

    async def list_baselines(self) -> list[conformance.Baseline]:
        """The tenant's baselines by name."""
        request = conformance.ListBaselinesRequest()
        return list((await self._connection.call(methods.LIST_BASELINES, request)).baselines)

    async def delete_baseline(self, name: str) -> conformance.Baseline:
        """Takes a name away; its run stays as long as others of its age."""
        request = request_of(conformance.DeleteBaselineRequest, name=named(name, parameter="name"))
        return (await self._connection.call(methods.DELETE_BASELINE, request)).baseline

    async def compare_runs(self, before: str, now: str) -> conformance.CompareRunsResponse:
        """How a run differs from an earlier one.

        Args:
            before: The earlier one, by its id or the name of a baseline.
            now: The other.
        """
        request = request_of(
            conformance.CompareRunsRequest,
            before=named(before, parameter="before"),
            now=named(now, parameter="now"),
        )
        return await self._connection.call(methods.COMPARE_RUNS, request)

    async def _verify_by_digests(
        self, request: conformance.VerifyRequest, arrays: Mapping[str, Array]
    ) -> conformance.VerifyResponse:
        """Sends what the service lacks, and digests of the rest."""
        digests = {name: digest_of(array) for name, array in arrays.items()}
        question = conformance.SubmitOutputsRequest(
            suite=request.suite,
            case=request.case,
            seed=request.seed,
            digests=digests,
            standards=request.standards,
            gates=request.gates,
            definition=request.definition,
        )
        own = methods.SUBMIT_OWN_OUTPUTS
        method = own if request.definition else methods.SUBMIT_OUTPUTS
        known = await self._connection.call(method, question)
        if known.HasField("verified"):
            return known.verified
        lacking = {name: array for name, array in arrays.items() if name in known.missing}
        request.digests.update({n: digest for n, digest in digests.items() if n not in lacking})
        try:
            return await self._connection.verify(request, packed(lacking))
        except OpserveError as error:
            if error.code != Status.ACL_ERROR_RT_INVALID_HANDLE:
                raise
        request.ClearField("digests")  # the service has dropped outputs since
        return await self._connection.verify(request, packed(arrays))


def _of_case(kind: type[RequestT], case: str, *, suite: str, **others: object) -> RequestT:
    """Of a case in a suite, or of an own one: no id begins with a brace."""
    name = named(case, parameter="case")
    if name.lstrip().startswith("{"):
        return request_of(kind, definition=name, **others)
    return request_of(kind, suite=named(suite, parameter="suite"), case=name, **others)
