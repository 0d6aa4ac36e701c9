"""Conformance: cases, expected values, verdicts on outputs, and runs of suites."""

from collections.abc import Iterable, Mapping, Sequence

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
from opserve_kernels.array_like import ArrayLike
from opserve_kernels.status import Status

_PAGE = 1000
_DIGESTS_PAY_BYTES = 256 * 2**10
"""Bytes of outputs from which digests are sent first: at 100 Mbit/s an upload of them takes 20 ms,
about as long as the call that sends the digests."""


class AsyncConformance:
    """Cases, their expected values, and verdicts; see AsyncClient.conformance.

    A case has an id in a suite, "smoke", "standard" or "exhaustive", which a seed determines. A
    case of your own is a definition: JSON as in docs/reference/conformance-cases.md. Arrays of BF16
    are arrays of uint16 with the same bits.
    """

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def list_suites(self) -> list[conformance.Suite]:
        """Returns the suites that are generated from the operators' contracts."""
        request = conformance.ListSuitesRequest()
        return list((await self._connection.call(methods.LIST_SUITES, request)).suites)

    async def list_cases(
        self, suite: str = "standard", *, seed: int = 0, operator: str = "", match: str = ""
    ) -> list[conformance.CaseInfo]:
        """Returns the cases of a suite, in the suite's order.

        Args:
            suite: Name of the suite.
            seed: Seed of the random shapes.
            operator: Operator of the cases; "" means all.
            match: Pattern (*, ?) for the id, source or tag of the cases; "" means all.
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
        """Returns the definition of a case of a suite: one line of JSON."""
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
        """Converts lines to definitions of cases; reports the lines that cannot be converted.

        Args:
            form: "benchdnn", problem strings; "miopen", command lines of MIOpenDriver; "json",
                definitions.
            lines: Up to 400 lines.
            profile: Profile of the converted calls; "" means ascend910b.
            fill: Distribution of the inputs, such as "normal"; "" means "integer".

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
        """Returns the inputs of a case by name.

        Args:
            case: Id of the case, or a definition.
            suite: Suite of the id.
            seed: Seed of the inputs.
        """
        request = _of_case(conformance.GetInputsRequest, case, suite=suite, seed=seed)
        return unpacked(await self._connection.archive(methods.GET_INPUTS, request))

    async def get_golden(
        self, case: str, *, suite: str = "standard", seed: int = 0
    ) -> dict[str, Array]:
        """Returns the expected values of each output, in float64 and in the output's shape.

        "values.NAME" has the values of an output, and "magnitudes.NAME" the sums of the absolute
        values of its products.

        Args:
            case: Id of the case, or a definition.
            suite: Suite of the id.
            seed: Seed of the inputs.
        """
        request = _of_case(conformance.GetGoldenRequest, case, suite=suite, seed=seed)
        return unpacked(await self._connection.archive(methods.GET_GOLDEN, request))

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
        """Returns the verdict on outputs of a case; sends no large output that the service has.

        Args:
            case: Id of the case, or a definition.
            outputs: Arrays of any library by name; an output that is missing counts as not written.
            suite: Suite of the id.
            seed: Seed of the inputs.
            code: Status code of a call that the kernel rejected, by name or number; "" if the call
                succeeded.
            standards: Standards to report beside the verdict, such as "torch-assert-close".
            gates: Standards that decide: an output to which one applies must meet it.

        Raises:
            AclnnError: 161002, an output is no array of numbers that opserve has.
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
        """Starts a run of a suite on devices of the service, and returns at once.

        Args:
            suite: Name of the suite; with definitions, a name for them.
            target: Name of the run's target in the history.
            seed: Seed of the suite and of the inputs.
            profile: Profile of the cases; "" means all.
            operator: Operator of the cases; "" means all.
            match: Pattern (*, ?) for the id, source or tag of the cases; "" means all.
            repeats: Calls of each case, up to 10; their results must be equal bit by bit.
            standards: Standards to report beside the verdict, by name.
            gates: Standards that decide: an output to which one applies must meet it.
            deterministic_level: Deterministic level of the run's sessions.
            definitions: Definitions of cases to run instead of a suite's cases.
            accuracy: Error bound of results in the run's sessions.
            documented_rules: Answer, in the run's sessions, to a call that breaks a rule of the
                vendor's page alone.

        Raises:
            AclrtError: 100000, a definition is invalid; 207012, the tenant has too many active
                runs; 507901, the service has no store.
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
        """Returns a run and its progress.

        Args:
            run: Id of the run.
            wait_s: Longest wait for the end of the run in seconds, up to 60.
        """
        request = request_of(
            conformance.GetRunRequest, run=named(run, parameter="run"), wait_s=wait_s
        )
        return (await self._connection.call(methods.GET_RUN, request)).run

    async def cancel_run(self, run: str) -> conformance.Run:
        """Cancels a run and keeps the results so far."""
        request = request_of(conformance.CancelRunRequest, run=named(run, parameter="run"))
        return (await self._connection.call(methods.CANCEL_RUN, request)).run

    async def list_runs(
        self, target: str = "", *, cursor: str = "", limit: int = 0
    ) -> conformance.ListRunsResponse:
        """Returns a page of the tenant's runs, newest first.

        Args:
            target: Target of the runs; "" means all.
            cursor: Cursor of the previous page; "" means the first page.
            limit: Greatest number of runs, up to 200; 0 means 20.
        """
        request = request_of(conformance.ListRunsRequest, target=target, cursor=cursor, limit=limit)
        return await self._connection.call(methods.LIST_RUNS, request)

    async def list_results(self, run: str, *, status: str = "") -> list[conformance.CaseResult]:
        """Returns the results of a run's cases, in the suite's order.

        Args:
            run: Id of the run.
            status: Status of the results, such as "FAILED"; "" means all.
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
        """Adds a run that another program judged to the history, as a whole or not at all.

        Args:
            results: Results in the suite's order; verdicts may be "".
            target: Name of the run's target in the history.
            suite: Name of the suite, which may be unknown to the service.
            digest: Digest of the whole suite: "sha256:" and 64 hexadecimal digits.
            seed: Seed of the inputs.
            tool: Name and version of the program that judged.

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
        """Gives a finished run a name, or moves a name to another run; named runs do not expire.

        Args:
            name: Name, accepted wherever a call takes the id of a run.
            run: Id of the run, or the name of another baseline.
        """
        request = request_of(
            conformance.SetBaselineRequest,
            name=named(name, parameter="name"),
            run=named(run, parameter="run"),
        )
        return (await self._connection.call(methods.SET_BASELINE, request)).baseline

    async def list_baselines(self) -> list[conformance.Baseline]:
        """Returns the tenant's baselines, sorted by name."""
        request = conformance.ListBaselinesRequest()
        return list((await self._connection.call(methods.LIST_BASELINES, request)).baselines)

    async def delete_baseline(self, name: str) -> conformance.Baseline:
        """Deletes a name; its run then expires like others."""
        request = request_of(conformance.DeleteBaselineRequest, name=named(name, parameter="name"))
        return (await self._connection.call(methods.DELETE_BASELINE, request)).baseline

    async def compare_runs(self, before: str, now: str) -> conformance.CompareRunsResponse:
        """Compares a run with an earlier one.

        Args:
            before: Id or baseline name of the earlier run.
            now: Id or baseline name of the later run.
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
        """Sends digests of all outputs first, and then only the outputs that the service lacks."""
        digests = {name: digest_of(array) for name, array in arrays.items()}
        submission = conformance.SubmitOutputsRequest(
            suite=request.suite,
            case=request.case,
            seed=request.seed,
            digests=digests,
            standards=request.standards,
            gates=request.gates,
            definition=request.definition,
        )
        answer = await self._connection.call(methods.SUBMIT_OUTPUTS, submission)
        if answer.HasField("verified"):
            return answer.verified
        lacking = {name: array for name, array in arrays.items() if name in answer.missing}
        request.digests.update({n: digest for n, digest in digests.items() if n not in lacking})
        try:
            return await self._connection.verify(request, packed(lacking))
        except OpserveError as error:
            if error.code != Status.ACL_ERROR_RT_INVALID_HANDLE:
                raise
        # Between the two calls the service dropped an output that it had: send all of them.
        request.ClearField("digests")
        return await self._connection.verify(request, packed(arrays))


def _of_case(kind: type[RequestT], case: str, *, suite: str, **others: object) -> RequestT:
    """Builds a request for an id or a definition: no id begins with a brace."""
    name = named(case, parameter="case")
    if name.lstrip().startswith("{"):
        return request_of(kind, definition=name, **others)
    return request_of(kind, suite=named(suite, parameter="suite"), case=name, **others)
