"""Routes of conformance: calls that are values, archives, and one form for outputs."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from opserve_server.calls import caller
from opserve_server.conformance import answers, calls
from opserve_server.conformance.conformance import Conformance
from opserve_server.core.service import Service
from opserve_server.rest_api.bodies import MULTIPART, OCTETS, while_connected
from opserve_server.rest_api.content import StreamedAnswer
from opserve_server.rest_api.models import derived, parse, values_of
from opserve_server.rest_api.one_shot import RunLimits, args_in, arrays_in, form_of
from opserve_server.rest_api.openapi import Operation
from opserve_server.rest_api.routes import Endpoint
from opserve_server.rest_api.values import ValueRoute, operation_of, value_operations

_SUITES = "/v1/conformance/suites"
_CASES = f"{_SUITES}/{{suite}}/cases"
_CASE = f"{_CASES}/{{case}}"
_OWN = "/v1/conformance/cases"
_RUNS = "/v1/conformance/runs"
_RUN = f"{_RUNS}/{{run}}"
_BASELINES = "/v1/conformance/baselines"
_NAMED, _DEFINED = ("definition",), ("suite", "case")
"""What a route of a suite's case has no place for, and what one of an own case."""
CONFORMANCE_ROUTES = tuple(
    ValueRoute(method, path, request, calls.ANSWERS[request])
    for method, path, request in (
        ("GET", _SUITES, calls.ListSuites),
        ("GET", _CASES, calls.ListCases),
        ("POST", _RUNS, calls.RunSuite),
        ("GET", _RUNS, calls.ListRuns),
        ("GET", _RUN, calls.GetRun),
        ("POST", f"{_RUN}:cancel", calls.CancelRun),
        ("GET", f"{_RUN}/results", calls.ListResults),
        ("POST", f"{_RUNS}:report", calls.ReportRun),
        ("GET", f"{_RUNS}:compare", calls.CompareRuns),
        ("POST", _BASELINES, calls.SetBaseline),
        ("GET", _BASELINES, calls.ListBaselines),
        ("DELETE", f"{_BASELINES}/{{name}}", calls.DeleteBaseline),
    )
)


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictDocument:
    """A verdict: its status, the reason in one sentence, and all of it."""

    case: str
    status: str
    reason: str
    verdict: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseDocument:
    """A case, as a line of a suite has it."""

    definition: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class CasesReadDocument:
    """What lines make: definitions of cases, each with its id; and what makes none."""

    definitions: Sequence[dict[str, Any]]
    refused: Sequence[answers.RefusedLine]


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmittedDocument:
    """A verdict, or the names of the outputs that must be sent first."""

    verified: VerdictDocument | None
    missing: Sequence[str]


_DOCUMENT_ROUTES = (
    ValueRoute("GET", _CASE, calls.GetCase, CaseDocument),
    ValueRoute("POST", f"{_OWN}:read", calls.ReadCases, CasesReadDocument),
    ValueRoute("POST", f"{_CASE}:submit", calls.SubmitOutputs, SubmittedDocument, without=_NAMED),
    ValueRoute(
        *("POST", f"{_OWN}:submit", calls.SubmitOutputs, SubmittedDocument),
        name="SubmitOwnOutputs",
        without=_DEFINED,
    ),
)
_ARCHIVE_ROUTES = (
    ValueRoute("GET", f"{_CASE}/inputs", calls.GetInputs, bytes, without=_NAMED),
    ValueRoute("GET", f"{_CASE}/golden", calls.GetGolden, bytes, without=_NAMED),
    ValueRoute(
        *("POST", f"{_OWN}:inputs", calls.GetInputs, bytes), name="GetOwnInputs", without=_DEFINED
    ),
    ValueRoute(
        *("POST", f"{_OWN}:golden", calls.GetGolden, bytes), name="GetOwnGolden", without=_DEFINED
    ),
)


def conformance_operations(
    service: Service, conformance: Conformance, body_bytes_limit: int, limits: RunLimits
) -> Iterator[Operation]:
    """Every route of conformance."""
    yield from value_operations(CONFORMANCE_ROUTES, conformance.run, body_bytes_limit)
    documented = partial(_documented, conformance)
    yield from value_operations(_DOCUMENT_ROUTES, documented, body_bytes_limit)
    for route in _ARCHIVE_ROUTES:
        yield operation_of(route, partial(_archive, conformance), body_bytes_limit)
    for name, path, without in (
        ("Verify", f"{_CASE}:verify", ("suite", "case", "definition")),
        ("VerifyOwn", f"{_OWN}:verify", _DEFINED),
    ):
        form = derived(calls.Verify, f"{name}Body", without=without)
        yield Operation(
            method="POST",
            path=path,
            endpoint=_verify_endpoint(service, conformance, form, limits),
            name=name,
            summary=str(calls.Verify.__doc__),
            body=form,
            takes=MULTIPART,
            answer=VerdictDocument,
        )


async def _archive(
    conformance: Conformance, request: Request, asked: calls.GetInputs | calls.GetGolden
) -> Response:
    pieces = conformance.archive(asked)
    # Refused before the status is told.
    head = await while_connected(request, anext(pieces))
    return StreamedAnswer(pieces, head=head, media_type=OCTETS)


def _verify_endpoint(
    service: Service, conformance: Conformance, form: type[BaseModel], limits: RunLimits
) -> Endpoint:
    async def endpoint(request: Request) -> Response:
        account = service.accounts.of(caller().tenant)
        async with form_of(request, limits, service) as parts:
            given = values_of(parse(form, await args_in(parts, limits), inside="args"))
            asked = calls.Verify(**request.path_params, **given)
            with account.in_flight(0) as moving:
                judging = conformance.verify(asked, partial(arrays_in, parts, limits, moving))
                verified = await while_connected(request, judging)
        return JSONResponse(asdict(_document(verified)))

    return endpoint


async def _documented(
    conformance: Conformance, asked: calls.GetCase | calls.ReadCases | calls.SubmitOutputs
) -> CaseDocument | CasesReadDocument | SubmittedDocument:
    """An answer whose texts of JSON are parts of the document."""
    match await conformance.run(asked):
        case answers.OneCase(definition=definition):
            return CaseDocument(definition=json.loads(definition))
        case answers.CasesRead(definitions=definitions, refused=refused):
            read = [json.loads(definition) for definition in definitions]
            return CasesReadDocument(definitions=read, refused=refused)
        case answers.Submitted(verified=verified, missing=missing):
            document = None if verified is None else _document(verified)
            return SubmittedDocument(verified=document, missing=missing)
        case answer:
            raise AssertionError(f"{answer} is told as it is")


def _document(verified: answers.Verified) -> VerdictDocument:
    return VerdictDocument(**asdict(verified) | {"verdict": json.loads(verified.verdict)})
