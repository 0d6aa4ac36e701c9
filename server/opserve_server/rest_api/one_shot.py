"""The one-shot form: multipart in, .npz out."""

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from itertools import accumulate
from typing import Any

from numpy.typing import NDArray
from starlette.datastructures import FormData, UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import Request
from starlette.responses import Response

from opserve_kernels.operator import Operator
from opserve_server.calls import BodyTooLarge, caller, malformed, shortened
from opserve_server.core.accounts import Holding
from opserve_server.core.asking import SessionRequest
from opserve_server.core.one_shot import OneShotAnswer, OneShotCall, run_once
from opserve_server.core.results import RuleWarning
from opserve_server.core.service import Service
from opserve_server.core.tenants import Resource
from opserve_server.npz import ArrayLimits, dump_arrays, load_arrays
from opserve_server.rest_api.bodies import MULTIPART, OCTETS, bounded, media_type, while_connected
from opserve_server.rest_api.models import SESSION_TEXTS, parse, run_body, values_of
from opserve_server.rest_api.routes import Endpoint

DTYPES_HEADER = "X-Opserve-Dtypes"
WARNINGS_HEADER = "X-Opserve-Warnings"
_WARNINGS_BYTES = 6144
"""Of the header: many proxies refuse more than 8 KiB of headers."""
_PARTS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class RunLimits:
    """Bounds on one-shot calls.

    Attributes:
        args_bytes: Bytes of the `args` part.
        run_bytes: Bytes of the body, of the arrays unpacked, and of the outputs, each.
        arrays: Arrays of one call.
        concurrent_runs: Calls at work at the same time; more wait.
    """

    args_bytes: int
    run_bytes: int
    arrays: int
    concurrent_runs: int


def run_endpoint(
    service: Service, operator: Operator[Any], *, limits: RunLimits, turn: asyncio.Semaphore
) -> Endpoint:
    """A whole call of one operator; `turn` is shared by all of them."""
    model = run_body(operator.name)

    async def endpoint(request: Request) -> Response:
        moving = service.accounts.of(caller().tenant).holding(Resource.BYTES_IN_FLIGHT)
        async with form_of(request, limits, moving) as form:
            args = values_of(parse(model, await args_in(form, limits), inside="args"))
            async with turn:
                arrays = await arrays_in(form, limits)
                call = OneShotCall(
                    session=SessionRequest(**{name: args[name] for name in SESSION_TEXTS}),
                    operator=operator,
                    arguments=values_of(args["arguments"]),
                    arrays=arrays,
                    output_bytes_limit=limits.run_bytes,
                )
                moving.hold(0)  # from here on the call itself is charged
                running = run_once(service, caller(), call)
                return await _answer(await while_connected(request, running))

    return endpoint


@asynccontextmanager
async def form_of(request: Request, limits: RunLimits, moving: Holding) -> AsyncGenerator[FormData]:
    """The parts of the body; large ones lie in temporary files until the call is over."""
    if media_type(request) != MULTIPART:
        raise malformed("Content-Type", given=media_type(request), allowed=MULTIPART)
    parser = MultiPartParser(
        request.headers,
        _charged(bounded(request, limit=limits.run_bytes), moving),
        max_files=_PARTS,
        max_fields=_PARTS,
        max_part_size=limits.args_bytes,
    )
    try:
        form = await parser.parse()
        try:
            yield form
        finally:
            await form.close()
    except MultiPartException as error:
        raise malformed("body", given=error.message, allowed="the parts args, tensors") from error
    finally:
        moving.hold(0)


async def _charged(chunks: AsyncGenerator[bytes], moving: Holding) -> AsyncGenerator[bytes]:
    """A body, which its tenant holds as it comes."""
    size_bytes = 0
    async for chunk in chunks:
        moving.check(len(chunk))
        size_bytes += len(chunk)
        moving.hold(size_bytes)
        yield chunk


async def args_in(form: FormData, limits: RunLimits) -> bytes:
    """The JSON of the part args; empty where there is none."""
    part = form.get("args")
    if part is None:
        return b""
    if isinstance(part, str):
        return part.encode()
    if (part.size or 0) > limits.args_bytes:
        raise BodyTooLarge("args", limit=limits.args_bytes)
    return await part.read()


async def arrays_in(form: FormData, limits: RunLimits) -> Mapping[str, NDArray[Any]]:
    """The arrays of the part tensors."""
    part = form.get("tensors")
    if part is None:
        return {}
    if not isinstance(part, UploadFile):
        raise malformed("tensors", given="text", allowed="a file: -F tensors=@in.npz")
    bounds = ArrayLimits(arrays=limits.arrays, unpacked_bytes=limits.run_bytes)
    return await asyncio.to_thread(load_arrays, part.file, part.size or 0, limits=bounds)


async def _answer(answer: OneShotAnswer) -> Response:
    arrays = {name: array for name, (array, _) in answer.outputs.items()}
    dtypes = {name: dtype.value for name, (_, dtype) in answer.outputs.items()}
    headers = {DTYPES_HEADER: json.dumps(dtypes)}
    if answer.warnings:
        headers[WARNINGS_HEADER] = _listed(answer.warnings)
    return Response(
        await asyncio.to_thread(dump_arrays, arrays), media_type=OCTETS, headers=headers
    )


def _listed(warnings: Sequence[RuleWarning]) -> str:
    """A JSON list in ASCII, of as many warnings as fit and the number of those left out."""
    entries = [json.dumps({name: _short(v) for name, v in asdict(w).items()}) for w in warnings]
    ends = accumulate(len(entry) + 2 for entry in entries)
    fits = sum(end <= _WARNINGS_BYTES for end in ends)
    if fits < len(entries):
        entries[fits:] = [json.dumps({"left_out": len(entries) - fits})]
    return f"[{', '.join(entries)}]"


def _short(value: object) -> object:
    return shortened(value) if isinstance(value, str) else value
