"""The one-shot form: multipart in, .npz out."""

import asyncio
import json
from collections.abc import AsyncGenerator, Coroutine, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from numpy.typing import NDArray
from starlette.datastructures import FormData, UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from opserve_kernels.operator import Operator
from opserve_kernels.tensor import DataType
from opserve_server.calls import caller, malformed
from opserve_server.core.accounts import Holding
from opserve_server.core.one_shot import OneShotCall, run_once
from opserve_server.core.service import Service
from opserve_server.core.tenants import Resource
from opserve_server.rest_api.bodies import MULTIPART, OCTETS, bounded, media_type
from opserve_server.rest_api.errors import BodyTooLarge
from opserve_server.rest_api.models import parse, run_body, values_of
from opserve_server.rest_api.npz import ArrayLimits, dump_arrays, load_arrays
from opserve_server.rest_api.routes import Endpoint

Answer = TypeVar("Answer")
DTYPES_HEADER = "X-Opserve-Dtypes"
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
        async with _parts(request, limits, moving) as form:
            args = values_of(parse(model, await _args(form, limits), inside="args"))
            async with turn:
                arrays = await _arrays(form, limits)
                call = OneShotCall(
                    profile=args["profile"],
                    operator=operator,
                    arguments=values_of(args["arguments"]),
                    arrays=arrays,
                    output_bytes_limit=limits.run_bytes,
                )
                moving.hold(0)  # from here on the call itself is charged
                running = run_once(service, caller(), call)
                return await _answer(await _while_awaited(request, running))

    return endpoint


async def _while_awaited(request: Request, work: Coroutine[Any, Any, Answer]) -> Answer:
    """What some work comes to. It is cancelled, to its end, when nobody waits for it any more.

    Raises:
        ClientDisconnect: The caller has gone.
    """
    running, leaving = asyncio.create_task(work), asyncio.create_task(_leaves(request))
    try:
        await asyncio.wait([running, leaving], return_when=asyncio.FIRST_COMPLETED)
        if not running.done():
            raise ClientDisconnect
        return running.result()
    finally:
        for task in (running, leaving):
            task.cancel()
        await asyncio.wait([running, leaving])


async def _leaves(request: Request) -> None:
    """Ends when the caller goes; the body was read before."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


@asynccontextmanager
async def _parts(request: Request, limits: RunLimits, moving: Holding) -> AsyncGenerator[FormData]:
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


async def _args(form: FormData, limits: RunLimits) -> bytes:
    part = form.get("args")
    if part is None:
        return b""
    if isinstance(part, str):
        return part.encode()
    if (part.size or 0) > limits.args_bytes:
        raise BodyTooLarge("args", limit=limits.args_bytes)
    return await part.read()


async def _arrays(form: FormData, limits: RunLimits) -> Mapping[str, NDArray[Any]]:
    part = form.get("tensors")
    if part is None:
        return {}
    if not isinstance(part, UploadFile):
        raise malformed("tensors", given="text", allowed="a file: -F tensors=@in.npz")
    bounds = ArrayLimits(arrays=limits.arrays, unpacked_bytes=limits.run_bytes)
    return await asyncio.to_thread(load_arrays, part.file, part.size or 0, limits=bounds)


async def _answer(outputs: Mapping[str, tuple[NDArray[Any], DataType]]) -> Response:
    arrays = {name: array for name, (array, _) in outputs.items()}
    dtypes = {name: dtype.value for name, (_, dtype) in outputs.items()}
    return Response(
        await asyncio.to_thread(dump_arrays, arrays),
        media_type=OCTETS,
        headers={DTYPES_HEADER: json.dumps(dtypes)},
    )
