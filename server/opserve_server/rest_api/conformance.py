"""Routes of conformance: calls that are values, archives, and one form for outputs."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from opserve_server.calls import caller
from opserve_server.conformance import calls
from opserve_server.conformance.conformance import Conformance
from opserve_server.core.service import Service
from opserve_server.core.tenants import Resource
from opserve_server.rest_api.bodies import MULTIPART, OCTETS, while_connected
from opserve_server.rest_api.content import joined
from opserve_server.rest_api.models import derived, parse, parse_query, values_of
from opserve_server.rest_api.one_shot import RunLimits, args_in, arrays_in, form_of
from opserve_server.rest_api.openapi import Operation
from opserve_server.rest_api.routes import Endpoint, path_names
from opserve_server.rest_api.values import ValueRoute, value_operations

_SUITES = "/v1/conformance/suites"
_CASES = f"{_SUITES}/{{suite}}/cases"
_CASE = f"{_CASES}/{{case}}"
_RUNS = "/v1/conformance/runs"
_RUN = f"{_RUNS}/{{run}}"
CONFORMANCE_ROUTES = tuple(
    ValueRoute(method, path, request, calls.ANSWERS[request])
    for method, path, request in (
        ("GET", _SUITES, calls.ListSuites),
        ("GET", _CASES, calls.ListCases),
        ("GET", _CASE, calls.GetCase),
        ("POST", _RUNS, calls.RunSuite),
        ("GET", _RUNS, calls.ListRuns),
        ("GET", _RUN, calls.GetRun),
        ("POST", f"{_RUN}:cancel", calls.CancelRun),
        ("GET", f"{_RUN}/results", calls.ListResults),
    )
)
_ARCHIVES = ((f"{_CASE}/inputs", calls.GetInputs), (f"{_CASE}/golden", calls.GetGolden))


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictDocument:
    """A verdict: its status, the reason in one sentence, and all of it."""

    case: str
    status: str
    reason: str
    verdict: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmittedDocument:
    """A verdict, or the names of the outputs that must be sent first."""

    verified: VerdictDocument | None
    missing: Sequence[str]


def conformance_operations(
    service: Service, conformance: Conformance, body_bytes_limit: int, limits: RunLimits
) -> Iterator[Operation]:
    """Every route of conformance."""
    yield from value_operations(CONFORMANCE_ROUTES, conformance.run, body_bytes_limit)
    submit = ValueRoute("POST", f"{_CASE}:submit", calls.SubmitOutputs, SubmittedDocument)
    yield from value_operations((submit,), partial(_submitted, conformance), body_bytes_limit)
    for path, request in _ARCHIVES:
        query = derived(request, f"{request.__name__}Query", without=path_names(path))
        yield Operation(
            method="GET",
            path=path,
            endpoint=_archive_endpoint(conformance, request, query),
            name=request.__name__,
            summary=str(request.__doc__),
            query=query,
            answer=bytes,
        )
    form = derived(calls.Verify, "VerifyBody", without=("suite", "case"))
    yield Operation(
        method="POST",
        path=f"{_CASE}:verify",
        endpoint=_verify_endpoint(service, conformance, form, limits),
        name=calls.Verify.__name__,
        summary=str(calls.Verify.__doc__),
        body=form,
        takes=MULTIPART,
        answer=VerdictDocument,
    )


def _archive_endpoint(
    conformance: Conformance,
    kind: type[calls.GetInputs | calls.GetGolden],
    query: type[BaseModel],
) -> Endpoint:
    async def endpoint(request: Request) -> Response:
        given = values_of(parse_query(query, request))
        pieces = conformance.archive(kind(**request.path_params, **given))
        # Refused before the status is told.
        head = await while_connected(request, anext(pieces))
        return StreamingResponse(joined(head, pieces), media_type=OCTETS)

    return endpoint


def _verify_endpoint(
    service: Service, conformance: Conformance, form: type[BaseModel], limits: RunLimits
) -> Endpoint:
    async def endpoint(request: Request) -> Response:
        moving = service.accounts.of(caller().tenant).holding(Resource.BYTES_IN_FLIGHT)
        async with form_of(request, limits, moving) as parts:
            given = values_of(parse(form, await args_in(parts, limits), inside="args"))
            asked = calls.Verify(**request.path_params, **given)
            judging = conformance.verify(asked, partial(arrays_in, parts, limits))
            verified = await while_connected(request, judging)
        return JSONResponse(asdict(_document(verified)))

    return endpoint


async def _submitted(conformance: Conformance, asked: calls.SubmitOutputs) -> SubmittedDocument:
    answer = await conformance.run(asked)
    assert isinstance(answer, calls.Submitted)
    verified = None if answer.verified is None else _document(answer.verified)
    return SubmittedDocument(verified=verified, missing=answer.missing)


def _document(verified: calls.Verified) -> VerdictDocument:
    return VerdictDocument(**asdict(verified) | {"verdict": json.loads(verified.verdict)})
