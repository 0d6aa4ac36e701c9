"""The one-shot form: multipart in, .npz out."""

import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import asdict, dataclass
from itertools import accumulate
from typing import Any

from starlette.datastructures import FormData, UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import Request
from starlette.responses import Response

from opserve_kernels.errors import shortened
from opserve_kernels.operator import Operator
from opserve_server.calls import BodyTooLarge, caller, malformed
from opserve_server.core.accounts import Reservation
from opserve_server.core.fair_slots import FairSlots
from opserve_server.core.one_shot import (
    NUMPY_TYPES,
    OneShotAnswer,
    OneShotCall,
    Output,
    computed,
)
from opserve_server.core.results import RuleWarning
from opserve_server.core.service import Service
from opserve_server.core.session_request import SessionRequest
from opserve_server.core.uploads import Upload
from opserve_server.npz import Array, ArrayLimits, StoredArray, archive_of, unpacked
from opserve_server.rest_api.bodies import MULTIPART, OCTETS, bounded, media_type, while_connected
from opserve_server.rest_api.models import RUN_BODIES, SESSION_TEXTS, parse, values_of
from opserve_server.rest_api.streaming import StreamedAnswer

DTYPES_HEADER = "X-Opserve-Dtypes"
WARNINGS_HEADER = "X-Opserve-Warnings"
_WARNINGS_BYTES = 6144
"""Size of the header: many proxies reject more than 8 KiB of headers."""
_PARTS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class RunLimits:
    """Bounds on one-shot calls.

    Attributes:
        args_bytes: Bytes of the `args` part.
        run_bytes: Bytes of the body, of the arrays unpacked, and of the outputs, each.
        arrays: Arrays of one call.
        concurrent_runs: Calls that compute at the same time; more wait.
        waiting_runs: Calls of one tenant that wait.
    """

    args_bytes: int
    run_bytes: int
    arrays: int
    concurrent_runs: int
    waiting_runs: int


async def run_whole_call(
    service: Service,
    operator: Operator[Any],
    request: Request,
    *,
    limits: RunLimits,
    slots: FairSlots,
) -> Response:
    """Serves a one-shot call of one operator; all operators share `slots`."""
    async with form_of(request, limits, service) as form:
        model = RUN_BODIES[operator.name]
        args = values_of(parse(model, await args_in(form, limits), inside="args"))
        pieces = _answered(service, operator, args, form, limits, slots)
        # Errors come before the status is sent.
        headers: dict[str, str] = json.loads(await while_connected(request, anext(pieces)))
    return StreamedAnswer(pieces, media_type=OCTETS, headers=headers)


async def _answered(
    service: Service,
    operator: Operator[Any],
    args: Mapping[str, Any],
    form: FormData,
    limits: RunLimits,
    slots: FairSlots,
) -> AsyncGenerator[bytes]:
    """The headers of a call's answer, as JSON, and then the pieces of its .npz file.

    The tenant's bytes in flight are the arrays and the outputs, and then the outputs alone, until
    the last piece is sent.
    """
    account = service.accounts.of(caller().tenant)
    with account.in_flight() as in_flight:
        async with AsyncExitStack() as computing:
            await computing.enter_async_context(slots.slot(account))
            call = OneShotCall(
                session=SessionRequest(**{name: args[name] for name in SESSION_TEXTS}),
                operator=operator,
                arguments=values_of(args["arguments"]),
                arrays=await arrays_in(form, limits, in_flight),
                output_bytes_limit=limits.run_bytes,
            )
            async with computed(service, caller(), call, in_flight) as answer:
                stored = [*map(_stored, answer.outputs)]
                del call  # a slow reader must keep neither the arrays nor a slot
                await computing.aclose()
                yield json.dumps(_headers(answer)).encode()
                async for piece in archive_of(stored):
                    yield piece


def _stored(output: Output) -> StoredArray:
    tensor = output.tensor
    dtype = NUMPY_TYPES[tensor.dtype]
    return StoredArray(name=output.name, dtype=dtype, shape=tensor.shape, chunks=output.chunks)


@asynccontextmanager
async def form_of(
    request: Request, limits: RunLimits, service: Service
) -> AsyncGenerator[FormData]:
    """The parts of the body; large ones are in temporary files until the block ends."""
    if media_type(request) != MULTIPART:
        raise malformed("Content-Type", given=media_type(request), allowed=MULTIPART)
    with service.uploads.upload(service.accounts.of(caller().tenant)) as upload:
        parser = MultiPartParser(
            request.headers,
            _charged(bounded(request, limit=limits.run_bytes), upload),
            max_files=_PARTS,
            max_fields=_PARTS,
            max_part_size=limits.args_bytes,
        )
        try:
            form = await parser.parse()
        except MultiPartException as error:
            given, allowed = error.message, "the parts args, tensors"
            raise malformed("body", given=given, allowed=allowed) from error
        try:
            yield form
        finally:
            await form.close()


async def _charged(chunks: AsyncGenerator[bytes], upload: Upload) -> AsyncGenerator[bytes]:
    """A body, charged to its tenant as it arrives."""
    async for chunk in chunks:
        upload.grow(len(chunk))
        yield chunk


async def args_in(form: FormData, limits: RunLimits) -> bytes:
    """The JSON of the part args; empty without one."""
    part = form.get("args")
    if part is None:
        return b""
    if isinstance(part, str):
        return part.encode()
    if (part.size or 0) > limits.args_bytes:
        raise BodyTooLarge("args", limit=limits.args_bytes)
    return await part.read()


async def arrays_in(form: FormData, limits: RunLimits, in_flight: Reservation) -> dict[str, Array]:
    """The arrays of the part tensors, whose bytes are reserved before they are unpacked."""
    part = form.get("tensors")
    if part is None:
        return {}
    if not isinstance(part, UploadFile):
        raise malformed("tensors", given="text", allowed="a file: -F tensors=@in.npz")
    bounds = ArrayLimits(arrays=limits.arrays, unpacked_bytes=limits.run_bytes)
    return await unpacked(part.file, part.size or 0, limits=bounds, in_flight=in_flight)


def _headers(answer: OneShotAnswer) -> dict[str, str]:
    dtypes = {output.name: output.tensor.dtype.value for output in answer.outputs}
    headers = {DTYPES_HEADER: json.dumps(dtypes)}
    if answer.warnings:
        headers[WARNINGS_HEADER] = _listed(answer.warnings)
    return headers


def _listed(warnings: Sequence[RuleWarning]) -> str:
    """A JSON list in ASCII of as many warnings as fit, and the number of omitted ones."""
    entries = [json.dumps({name: _short(v) for name, v in asdict(w).items()}) for w in warnings]
    ends = accumulate(len(entry) + 2 for entry in entries)
    fits = sum(end <= _WARNINGS_BYTES for end in ends)
    if fits < len(entries):
        entries[fits:] = [json.dumps({"left_out": len(entries) - fits})]
    return f"[{', '.join(entries)}]"


def _short(value: object) -> object:
    return shortened(value) if isinstance(value, str) else value
