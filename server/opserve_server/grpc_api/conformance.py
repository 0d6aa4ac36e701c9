"""ConformanceService: its calls are values, its arrays .npz files in pieces."""

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import asdict, replace
from functools import partial
from tempfile import SpooledTemporaryFile
from types import SimpleNamespace

from opserve.v1 import conformance_service_pb2 as messages
from opserve_kernels.conformance.record import CaseResult
from opserve_server.calls import MEMBERS_LIMIT, BodyTooLarge, caller, malformed
from opserve_server.conformance.answers import OneRun
from opserve_server.conformance.calls import ANSWERS, GetGolden, GetInputs, ReportRun, Verify
from opserve_server.conformance.conformance import Conformance
from opserve_server.core.accounts import Reservation
from opserve_server.core.service import Service
from opserve_server.core.uploads import Upload
from opserve_server.grpc_api.values import methods_of, values_in
from opserve_server.npz import unpacked

_IN_MEMORY_BYTES = 2**20
"""Size of a received .npz from which it is in a temporary file, bytes."""
_RESULTS = 1000  # per message: some milliseconds of the front's loop
Requests = AsyncIterator[messages.VerifyRequest]
Reports = AsyncIterator[messages.ReportRunRequest]
Report = Callable[[Reports, object], Awaitable[messages.ReportRunResponse]]


def conformance_api(service: Service, conformance: Conformance) -> object:
    """The servicer of ConformanceService."""

    async def verify(requests: Requests, _: object) -> messages.VerifyResponse:
        bounds, account = conformance.array_limits, service.accounts.of(caller().tenant)
        with (
            service.uploads.upload(account) as upload,
            SpooledTemporaryFile(_IN_MEMORY_BYTES) as file,
            account.in_flight() as in_flight,
        ):
            verify_request = await _receive(requests, file, upload, bounds.unpacked_bytes)
            read = partial(unpacked, file, file.tell(), limits=bounds, in_flight=in_flight)
            verified = await conformance.verify(verify_request, read)
        return messages.VerifyResponse(
            case=verified.case,
            status=verified.status,
            reason=verified.reason,
            verdict=verified.verdict,
        )

    async def inputs(
        request: messages.GetInputsRequest, _: object
    ) -> AsyncGenerator[messages.GetInputsResponse]:
        async with aclosing(conformance.archive(values_in(request, GetInputs))) as pieces:
            async for piece in pieces:
                yield messages.GetInputsResponse(data=piece)

    async def expected(
        request: messages.GetGoldenRequest, _: object
    ) -> AsyncGenerator[messages.GetGoldenResponse]:
        async with aclosing(conformance.archive(values_in(request, GetGolden))) as pieces:
            async for piece in pieces:
                yield messages.GetGoldenResponse(data=piece)

    unary = methods_of(ANSWERS.keys() - {ReportRun}, messages, conformance.run)
    report = _report_method(service, conformance)
    streamed = {"Verify": verify, "GetInputs": inputs, "GetGolden": expected, "ReportRun": report}
    return SimpleNamespace(**unary, **streamed)


def _report_method(service: Service, conformance: Conformance) -> Report:
    async def report(requests: Reports, _: object) -> messages.ReportRunResponse:
        with service.accounts.of(caller().tenant).in_flight() as in_flight:
            verify_request = await _reported(requests, in_flight, conformance.report_bytes_limit)
            answer = await conformance.run(verify_request)
        assert isinstance(answer, OneRun)
        return messages.ReportRunResponse(run=messages.Run(**asdict(answer.run)))

    return report


async def _receive(
    requests: Requests, file: "SpooledTemporaryFile[bytes]", upload: Upload, limit: int
) -> Verify:
    """Receives the case of a call; writes the bytes of its arrays to the file."""
    first = await anext(requests, None)
    if first is None:
        raise malformed("case", given="no message", allowed="a message that names it")
    _append(first.data, file, upload, limit)
    first.ClearField("data")
    async for request in requests:
        if any(field.name != "data" for field, _ in request.ListFields()):
            raise malformed("data", given="a second header", allowed="data alone")
        _append(request.data, file, upload, limit)
    verify_request: Verify = values_in(first, Verify)
    return verify_request


async def _reported(requests: Reports, in_flight: Reservation, limit: int) -> ReportRun:
    """Receives a run in pieces."""
    verify_request, results, size_bytes = ReportRun(), list[CaseResult](), 0
    first = True
    async for request in requests:
        in_flight.check(request.ByteSize())
        size_bytes += request.ByteSize()
        in_flight.update(size_bytes)
        if size_bytes > limit:
            raise BodyTooLarge("run", limit=limit)
        if len(request.results) > _RESULTS:
            given = f"{len(request.results)} in a message"
            raise malformed("results", given=given, allowed=f"at most {_RESULTS}")
        if len(results) + len(request.results) > MEMBERS_LIMIT:
            raise BodyTooLarge("results", limit=MEMBERS_LIMIT, unit="of them")
        part: ReportRun = values_in(request, ReportRun)
        results += part.results
        if first:
            verify_request, first = part, False
        elif replace(part, results=()) != ReportRun():
            raise malformed("results", given="a second header", allowed="results alone")
    return replace(verify_request, results=tuple(results))


def _append(data: bytes, file: "SpooledTemporaryFile[bytes]", upload: Upload, limit: int) -> None:
    upload.grow(len(data))
    if upload.size_bytes > limit:
        raise BodyTooLarge("data", limit=limit)
    file.write(data)
