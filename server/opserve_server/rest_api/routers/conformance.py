"""Conformance: suites and cases, verdicts on outputs, runs and baselines."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Depends, Path
from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from opserve_server.calls import caller
from opserve_server.conformance import answers, calls
from opserve_server.rest_api.bodies import BYTES, OCTETS, form_document, while_connected
from opserve_server.rest_api.dependencies import (
    backend_of,
    from_body,
    from_query,
    requires,
)
from opserve_server.rest_api.errors import problems
from opserve_server.rest_api.models import derived, parse, values_of
from opserve_server.rest_api.one_shot import args_in, arrays_in, form_of
from opserve_server.rest_api.route import ServiceRoute
from opserve_server.rest_api.streaming import StreamedAnswer

AnswerT = TypeVar("AnswerT")
_CASES = "/suites/{suite}/cases"
_CASE = f"{_CASES}/{{case}}"
Suite = Annotated[str, Path(description="Name of the suite.")]
CaseId = Annotated[str, Path(description="Id of the case.")]
_NAMED, _DEFINED = ("definition",), ("suite", "case")
"""Fields absent from routes of a suite's case, and from routes of an own case."""
_ARCHIVE: dict[int | str, dict[str, Any]] = {200: {"content": {OCTETS: {"schema": BYTES}}}}

router = APIRouter(
    prefix="/v1/conformance",
    tags=["conformance"],
    route_class=ServiceRoute,
    dependencies=[requires(calls.SCOPE)],
)


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictDocument:
    """A verdict: its status, the reason in one sentence, and its details.

    Attributes:
        case: Id of the case.
        status: PASSED, FAILED, ...
        reason: Reason, in one sentence.
        verdict: The complete verdict.
    """

    case: str
    status: str
    reason: str
    verdict: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseDocument:
    """The definition of a case.

    Attributes:
        definition: The definition of the case.
    """

    definition: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class CasesReadDocument:
    """Cases made from lines, and the lines that could not be converted.

    Attributes:
        definitions: Definitions of cases, each with its id.
        refused: The lines that could not be converted.
    """

    definitions: Sequence[dict[str, Any]]
    refused: Sequence[answers.RefusedLine]


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmittedDocument:
    """A verdict, or the names of the outputs that must be sent first.

    Attributes:
        verified: The verdict; None where outputs are missing.
        missing: Names of the outputs that the service lacks.
    """

    verified: VerdictDocument | None
    missing: Sequence[str]


@dataclass(frozen=True, slots=True)
class ConformanceCall:
    """A conformance call, which ends when its client disconnects.

    Attributes:
        request: The HTTP request.
    """

    request: Request

    async def run(self, params: Any, answer: type[AnswerT]) -> AnswerT:  # noqa: ANN401  # a request
        """Executes a request, whose answer has the type `answer`."""
        running = backend_of(self.request).conformance.run(params)
        answered = await while_connected(self.request, running)
        assert isinstance(answered, answer), "ANSWERS has it"
        return answered

    async def archive(self, params: calls.GetInputs | calls.GetGolden) -> Response:
        """Streams an .npz file; an error in making it comes before its status is sent."""
        pieces = backend_of(self.request).conformance.archive(params)
        head = await while_connected(self.request, anext(pieces))
        return StreamedAnswer(pieces, head=head, media_type=OCTETS)

    async def verify(self, form: type[BaseModel], **path: str) -> VerdictDocument:
        """Judges the outputs of a form, whose part `args` has a model."""
        backend = backend_of(self.request)
        limits, account = backend.run_limits, backend.service.accounts.of(caller().tenant)
        async with form_of(self.request, limits, backend.service) as parts:
            given = values_of(parse(form, await args_in(parts, limits), inside="args"))
            values: dict[str, Any] = given | path
            params = calls.Verify(**values)
            with account.in_flight() as in_flight:
                read = partial(arrays_in, parts, limits, in_flight)
                judging = backend.conformance.verify(params, read)
                return _document(await while_connected(self.request, judging))


Call = Annotated[ConformanceCall, Depends(ConformanceCall)]


@router.get("/suites", name="ListSuites")
async def list_suites(
    call: Call, params: Annotated[calls.ListSuites, from_query(calls.ListSuites)]
) -> answers.Suites:
    """Lists the suites that the operators' contracts make."""
    return await call.run(params, answers.Suites)


@router.get(_CASES, name="ListCases", responses=problems(404, 501))
async def list_cases(
    call: Call, params: Annotated[calls.ListCases, from_query(calls.ListCases, "suite")]
) -> answers.CasePage:
    """Lists cases of a suite, in its order."""
    return await call.run(params, answers.CasePage)


@router.post("/runs", name="RunSuite", status_code=201, responses=problems(404, 501))
async def run_suite(
    call: Call,
    params: Annotated[
        calls.RunSuite, from_body(calls.RunSuite, long_list=calls.LONG_LISTS[calls.RunSuite])
    ],
) -> answers.OneRun:
    """Tries a suite on devices of this service; returns at once."""
    return await call.run(params, answers.OneRun)


@router.get("/runs", name="ListRuns", responses=problems(404, 501))
async def list_runs(
    call: Call, params: Annotated[calls.ListRuns, from_query(calls.ListRuns)]
) -> answers.RunPage:
    """Lists the tenant's runs, on one target or all, the newest first."""
    return await call.run(params, answers.RunPage)


@router.get("/runs/{run}", name="GetRun", responses=problems(404, 501))
async def get_run(
    call: Call, params: Annotated[calls.GetRun, from_query(calls.GetRun, "run")]
) -> answers.OneRun:
    """Returns the state of a run, at once or at its end, after wait_s seconds at the latest."""
    return await call.run(params, answers.OneRun)


@router.post("/runs/{run}:cancel", name="CancelRun", responses=problems(404, 501))
async def cancel_run(
    call: Call, params: Annotated[calls.CancelRun, from_body(calls.CancelRun, "run")]
) -> answers.OneRun:
    """Ends a run; results so far are kept."""
    return await call.run(params, answers.OneRun)


@router.get("/runs/{run}/results", name="ListResults", responses=problems(404, 501))
async def list_results(
    call: Call, params: Annotated[calls.ListResults, from_query(calls.ListResults, "run")]
) -> answers.ResultPage:
    """Lists the results of a run, in the suite's order."""
    return await call.run(params, answers.ResultPage)


@router.post("/runs:report", name="ReportRun", responses=problems(404, 501))
async def report_run(
    call: Call,
    params: Annotated[
        calls.ReportRun, from_body(calls.ReportRun, long_list=calls.LONG_LISTS[calls.ReportRun])
    ],
) -> answers.OneRun:
    """Adds a run whose cases were tried and judged elsewhere, completely or not at all."""
    return await call.run(params, answers.OneRun)


@router.get("/runs:compare", name="CompareRuns", responses=problems(404, 501))
async def compare_runs(
    call: Call, params: Annotated[calls.CompareRuns, from_query(calls.CompareRuns)]
) -> answers.RunChanges:
    """Returns the differences between two runs."""
    return await call.run(params, answers.RunChanges)


@router.post("/baselines", name="SetBaseline", status_code=201, responses=problems(404, 501))
async def set_baseline(
    call: Call, params: Annotated[calls.SetBaseline, from_body(calls.SetBaseline)]
) -> answers.OneBaseline:
    """Names a run that has ended, or moves a name to another run."""
    return await call.run(params, answers.OneBaseline)


@router.get("/baselines", name="ListBaselines", responses=problems(501))
async def list_baselines(
    call: Call, params: Annotated[calls.ListBaselines, from_query(calls.ListBaselines)]
) -> answers.AllBaselines:
    """Lists the tenant's baselines by name."""
    return await call.run(params, answers.AllBaselines)


@router.delete("/baselines/{name}", name="DeleteBaseline", responses=problems(404, 501))
async def delete_baseline(
    call: Call, params: Annotated[calls.DeleteBaseline, from_query(calls.DeleteBaseline, "name")]
) -> answers.OneBaseline:
    """Removes a name; its run is kept as long as others of its age."""
    return await call.run(params, answers.OneBaseline)


@router.get(_CASE, name="GetCase", responses=problems(404))
async def get_case(
    call: Call, params: Annotated[calls.GetCase, from_query(calls.GetCase, "suite", "case")]
) -> CaseDocument:
    """Returns the definition of a case."""
    found = await call.run(params, answers.OneCase)
    return CaseDocument(definition=json.loads(found.definition))


@router.post("/cases:read", name="ReadCases")
async def read_cases(
    call: Call, params: Annotated[calls.ReadCases, from_body(calls.ReadCases)]
) -> CasesReadDocument:
    """Reads cases from problems of benchdnn, commands of MIOpenDriver, or definitions."""
    read = await call.run(params, answers.CasesRead)
    definitions = [json.loads(definition) for definition in read.definitions]
    return CasesReadDocument(definitions=definitions, refused=read.refused)


_SUBMIT = "Returns the verdict on outputs that were sent before, by digest, or which must be sent."
_SUBMITTED = from_body(calls.SubmitOutputs, "suite", "case", without=_NAMED)
_SUBMITTED_OWN = from_body(calls.SubmitOutputs, without=_DEFINED, name="SubmitOwnOutputs")


@router.post(f"{_CASE}:submit", name="SubmitOutputs", responses=problems(404, 504), summary=_SUBMIT)
async def submit_outputs(
    call: Call, params: Annotated[calls.SubmitOutputs, _SUBMITTED]
) -> SubmittedDocument:
    """Of a case of a suite."""
    return _submitted(await call.run(params, answers.Submitted))


@router.post("/cases:submit", name="SubmitOwnOutputs", responses=problems(504), summary=_SUBMIT)
async def submit_own_outputs(
    call: Call, params: Annotated[calls.SubmitOutputs, _SUBMITTED_OWN]
) -> SubmittedDocument:
    """Of a case of the caller's own."""
    return _submitted(await call.run(params, answers.Submitted))


def _submitted(answer: answers.Submitted) -> SubmittedDocument:
    verified = None if answer.verified is None else _document(answer.verified)
    return SubmittedDocument(verified=verified, missing=answer.missing)


def _document(verified: answers.Verified) -> VerdictDocument:
    return VerdictDocument(**asdict(verified) | {"verdict": json.loads(verified.verdict)})


@router.get(
    f"{_CASE}/inputs",
    name="GetInputs",
    response_class=StreamingResponse,
    responses=_ARCHIVE | problems(404),
)
async def get_inputs(
    call: Call,
    params: Annotated[
        calls.GetInputs, from_query(calls.GetInputs, "suite", "case", without=_NAMED)
    ],
) -> Response:
    """Returns an .npz file with the inputs of a case."""
    return await call.archive(params)


@router.get(
    f"{_CASE}/golden",
    name="GetGolden",
    response_class=StreamingResponse,
    responses=_ARCHIVE | problems(404, 504, 507),
)
async def get_golden(
    call: Call,
    params: Annotated[
        calls.GetGolden, from_query(calls.GetGolden, "suite", "case", without=_NAMED)
    ],
) -> Response:
    """Returns an .npz file with the expected values of each output and their magnitudes."""
    return await call.archive(params)


@router.post(
    "/cases:inputs", name="GetOwnInputs", response_class=StreamingResponse, responses=_ARCHIVE
)
async def get_own_inputs(
    call: Call,
    params: Annotated[
        calls.GetInputs, from_body(calls.GetInputs, without=_DEFINED, name="GetOwnInputs")
    ],
) -> Response:
    """Returns an .npz file with the inputs of a case of the caller's own."""
    return await call.archive(params)


@router.post(
    "/cases:golden",
    name="GetOwnGolden",
    response_class=StreamingResponse,
    responses=_ARCHIVE | problems(504, 507),
)
async def get_own_golden(
    call: Call,
    params: Annotated[
        calls.GetGolden, from_body(calls.GetGolden, without=_DEFINED, name="GetOwnGolden")
    ],
) -> Response:
    """Returns the expected values of a case of the caller's own, as GetGolden does."""
    return await call.archive(params)


_VERIFY = derived(calls.Verify, "VerifyBody", without=(*_DEFINED, *_NAMED))
_VERIFY_OWN = derived(calls.Verify, "VerifyOwnBody", without=_DEFINED)
FORMS = (_VERIFY, _VERIFY_OWN)
"""Models of parts of forms."""


@router.post(
    f"{_CASE}:verify",
    name="Verify",
    responses=problems(400, 404, 413, 504, 507),
    openapi_extra=form_document(_VERIFY),
)
async def verify(call: Call, suite: Suite, case: CaseId) -> VerdictDocument:
    """Judges outputs of a case: arrays of an .npz file, and digests of outputs sent before."""
    return await call.verify(_VERIFY, suite=suite, case=case)


@router.post(
    "/cases:verify",
    name="VerifyOwn",
    responses=problems(400, 404, 413, 504, 507),
    openapi_extra=form_document(_VERIFY_OWN),
)
async def verify_own(call: Call) -> VerdictDocument:
    """Judges outputs of a case of the caller's own, as Verify does."""
    return await call.verify(_VERIFY_OWN)
