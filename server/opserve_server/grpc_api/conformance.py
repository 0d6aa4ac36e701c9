"""ConformanceService: its calls are values, its arrays .npz files in pieces."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Generator
from contextlib import contextmanager
from dataclasses import asdict, replace
from tempfile import SpooledTemporaryFile
from types import SimpleNamespace

from opserve.v1 import conformance_service_pb2 as messages
from opserve_kernels.verdict.case_result import CaseResult
from opserve_server.calls import MEMBERS_LIMIT, BodyTooLarge, caller, malformed
from opserve_server.conformance.answers import OneRun
from opserve_server.conformance.calls import ANSWERS, GetGolden, GetInputs, ReportRun, Verify
from opserve_server.conformance.conformance import Conformance
from opserve_server.core.accounts import Holding
from opserve_server.core.service import Service
from opserve_server.core.tenants import Resource
from opserve_server.grpc_api.values import methods_of, values_in
from opserve_server.npz import Array, load_arrays

_IN_MEMORY_BYTES = 2**20
"""Of an .npz that comes; a larger one lies in a temporary file."""
_RESULTS = 1000  # of one message: some milliseconds of the front's loop
Requests = AsyncIterator[messages.VerifyRequest]
Reports = AsyncIterator[messages.ReportRunRequest]
Report = Callable[[Reports, object], Awaitable[messages.ReportRunResponse]]


def conformance_face(service: Service, conformance: Conformance) -> object:
    """A servicer of ConformanceService."""

    async def verify(requests: Requests, _: object) -> messages.VerifyResponse:
        limit = conformance.array_limits.unpacked_bytes
        with SpooledTemporaryFile(_IN_MEMORY_BYTES) as file, _held(service) as moving:
            asked = await _receive(requests, file, moving, limit)

            async def read() -> dict[str, Array]:
                size_bytes = file.tell()
                file.seek(0)
                bounds = conformance.array_limits
                return await asyncio.to_thread(load_arrays, file, size_bytes, limits=bounds)

            verified = await conformance.verify(asked, read)
        return messages.VerifyResponse(
            case=verified.case,
            status=verified.status,
            reason=verified.reason,
            verdict=verified.verdict,
        )

    async def inputs(
        request: messages.GetInputsRequest, _: object
    ) -> AsyncGenerator[messages.GetInputsResponse]:
        async for piece in conformance.archive(values_in(request, GetInputs)):
            yield messages.GetInputsResponse(data=piece)

    async def golden(
        request: messages.GetGoldenRequest, _: object
    ) -> AsyncGenerator[messages.GetGoldenResponse]:
        async for piece in conformance.archive(values_in(request, GetGolden)):
            yield messages.GetGoldenResponse(data=piece)

    unary = methods_of(ANSWERS.keys() - {ReportRun}, messages, conformance.run)
    report = _report_method(service, conformance)
    streamed = {"Verify": verify, "GetInputs": inputs, "GetGolden": golden, "ReportRun": report}
    return SimpleNamespace(**unary, **streamed)


def _report_method(service: Service, conformance: Conformance) -> Report:
    async def report(requests: Reports, _: object) -> messages.ReportRunResponse:
        with _held(service) as moving:
            asked = await _reported(requests, moving, conformance.report_bytes_limit)
            answer = await conformance.run(asked)
        assert isinstance(answer, OneRun)
        return messages.ReportRunResponse(run=messages.Run(**asdict(answer.run)))

    return report


@contextmanager
def _held(service: Service) -> Generator[Holding]:
    """Bytes that a tenant has under way, until the block ends."""
    moving = service.accounts.of(caller().tenant).holding(Resource.BYTES_IN_FLIGHT)
    try:
        yield moving
    finally:
        moving.hold(0)


async def _receive(
    requests: Requests, file: "SpooledTemporaryFile[bytes]", moving: Holding, limit: int
) -> Verify:
    """Which case is meant; its bytes go to the file."""
    first = await anext(requests, None)
    if first is None:
        raise malformed("case", given="no message", allowed="a message that names it")
    _append(first.data, file, moving, limit)
    async for request in requests:
        if any(field.name != "data" for field, _ in request.ListFields()):
            raise malformed("data", given="a second header", allowed="data alone")
        _append(request.data, file, moving, limit)
    first.ClearField("data")
    asked: Verify = values_in(first, Verify)
    return asked


async def _reported(requests: Reports, moving: Holding, limit: int) -> ReportRun:
    """The whole of a run that comes in pieces."""
    asked, results, size_bytes = ReportRun(), list[CaseResult](), 0
    first = True
    async for request in requests:
        moving.check(request.ByteSize())
        size_bytes += request.ByteSize()
        moving.hold(size_bytes)
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
            asked, first = part, False
        elif replace(part, results=()) != ReportRun():
            raise malformed("results", given="a second header", allowed="results alone")
    return replace(asked, results=tuple(results))


def _append(data: bytes, file: "SpooledTemporaryFile[bytes]", moving: Holding, limit: int) -> None:
    moving.check(len(data))
    file.write(data)
    moving.hold(file.tell())
    if file.tell() > limit:
        raise BodyTooLarge("data", limit=limit)
