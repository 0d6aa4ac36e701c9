"""Calls of models over HTTP: a JSON document with binary tensors behind it, both ways."""

from collections.abc import Generator, Iterator, Sequence
from math import prod
from typing import Annotated, Any, cast

from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import Response

from opserve_server.calls import caller, malformed
from opserve_server.inference.infer import PARAMETERS_LIMIT, InferAnswer, InferCall, Inference
from opserve_server.inference.models import Model
from opserve_server.inference.tensors import RANK_LIMIT, WireTensor, bytes_of, numbers_of
from opserve_server.inference.unsupported import check_tensor_parameters, not_supported
from opserve_server.json_slices import VALUES_AT_ONCE
from opserve_server.open_calls import CallSlot
from opserve_server.rest_api.bodies import BYTES, JSON, OCTETS, bounded, while_connected
from opserve_server.rest_api.models import DOCUMENTED, FirstFault, Int64, parse

HEADER_LENGTH = "Inference-Header-Content-Length"
_DIGITS = 10
_ENCODING, _IDENTITY = "Content-Encoding", "identity"
_SIZE, _BINARY, _ALL_BINARY = "binary_data_size", "binary_data", "binary_data_output"
_ANSWER = ConfigDict(use_attribute_docstrings=True, ser_json_inf_nan="constants")
"""Triton writes NaN and infinities by these names, too, and its client reads them."""
Parameters = Annotated[dict[str, Any], Field(max_length=PARAMETERS_LIMIT)]
_FEW = (FirstFault(), Field(max_length=PARAMETERS_LIMIT))


class InferInput(BaseModel):
    """An input: a tensor, or an attribute as a tensor."""

    model_config = DOCUMENTED

    name: str
    """Its name."""
    shape: Annotated[tuple[Int64, ...], FirstFault(), Field(max_length=RANK_LIMIT)]
    """Its shape."""
    datatype: str
    """FP32, FP16, BF16, FP64, INT64 or BOOL."""
    parameters: Parameters = {}
    """`binary_data_size`: bytes of its elements behind the document, in the order of inputs."""
    data: list[Any] | None = None
    """Its elements, row-major, flat or nested; absent where they are behind the document."""


class InferOutput(BaseModel):
    """A requested output."""

    model_config = DOCUMENTED

    name: str
    """Its name."""
    parameters: Parameters = {}
    """`binary_data`: whether its elements are behind the document of the answer."""


class InferRequest(BaseModel):
    """A call of a model."""

    model_config = DOCUMENTED

    id: str = ""
    """Its name, which the answer repeats."""
    parameters: Parameters = {}
    """Attributes and options; `binary_data_output`: whether the elements of every output are
    behind the document of the answer."""
    inputs: Annotated[tuple[InferInput, ...], *_FEW] = ()
    """The inputs."""
    outputs: Annotated[tuple[InferOutput, ...], *_FEW] = ()
    """The requested outputs; empty means all."""


class InferredOutput(BaseModel):
    """An output."""

    model_config = _ANSWER

    name: str
    """Its name."""
    datatype: str
    """FP32, FP16, BF16 or FP64."""
    shape: tuple[int, ...]
    """Its shape."""
    parameters: dict[str, int] | None = None
    """`binary_data_size`: bytes of its elements behind the document, in the order of outputs."""
    data: list[float] | None = None
    """Its elements, row-major; absent where they are behind the document."""


class InferResponse(BaseModel):
    """The answer to a call of a model."""

    model_config = _ANSWER

    model_name: str
    """The model."""
    model_version: str
    """Its version."""
    id: str | None = None
    """Name of the call."""
    parameters: dict[str, str] | None = None
    """`warnings`: broken rules of the vendor's page, as JSON, where those are warnings."""
    outputs: list[InferredOutput]
    """The requested outputs, in the operator's order."""


FORMS = (InferRequest, InferResponse)
"""Models of bodies with binary data behind them."""


def content_of(form: type[BaseModel]) -> dict[str, Any]:
    """A JSON document, and the same with binary data behind it, for a route's entry."""
    document = {"$ref": f"#/components/schemas/{form.__name__}"}
    return {"content": {JSON: {"schema": document}, OCTETS: {"schema": BYTES}}}


async def infer_over_http(
    inference: Inference, model: Model, request: Request, *, limit: int
) -> Response:
    """The answer to a call of a model, whose body has at most `limit` bytes."""
    slot: CallSlot = request.state.slot
    body = await slot.received(lambda: _body(request, limit))
    slot.keep(len(body))
    document, binary = _parts(request, body)
    del body
    given = parse(InferRequest, document)
    call = _call_of(model, given, binary)
    del binary
    answer = await while_connected(request, inference.infer(caller(), call))
    response = _response(answer, given)
    slot.keep(len(response.body))
    return response


async def _body(request: Request, limit: int) -> bytes:
    # Of any media type, as stock clients send none: a call of a model changes nothing that lasts.
    if request.headers.get(_ENCODING, _IDENTITY) != _IDENTITY:
        raise not_supported(_ENCODING)
    return b"".join([chunk async for chunk in bounded(request, limit=limit)])


def _parts(request: Request, body: bytes) -> tuple[bytes, bytes]:
    """The JSON document, and the bytes behind it."""
    given = request.headers.get(HEADER_LENGTH)
    if given is None:
        return body, b""
    is_number = given.isascii() and given.isdigit() and len(given) <= _DIGITS
    if not is_number or not 0 < int(given) <= len(body):
        allowed = f"the bytes of the JSON document, at most {len(body)}"
        raise malformed(HEADER_LENGTH, given=given[:64], allowed=allowed)
    return body[: int(given)], body[int(given) :]


def _call_of(model: Model, given: InferRequest, binary: bytes) -> InferCall:
    for tensor in given.inputs:
        check_tensor_parameters(tensor.parameters)
    for output in given.outputs:
        check_tensor_parameters(output.parameters)
    return InferCall(
        model=model.name,
        version=model.version,
        parameters=given.parameters,
        inputs=list(_inputs(given.inputs, binary)),
        outputs=[output.name for output in given.outputs],
    )


def _inputs(inputs: Sequence[InferInput], binary: bytes) -> Iterator[WireTensor]:
    begin = 0
    for one in inputs:
        size = one.parameters.get(_SIZE)
        if (size is None) is (one.data is None):
            given = "neither" if size is None else "both"
            raise malformed(one.name[:64], given=given, allowed=f"data or {_SIZE}")
        if one.data is not None:
            data = bytes_of(one.name[:64], one.datatype, list(_flat(one.data, RANK_LIMIT)))
        else:
            data = binary[begin : begin + _checked(one.name, size, len(binary) - begin)]
            begin += len(data)
        yield WireTensor(name=one.name, datatype=one.datatype, shape=one.shape, data=data)
    if begin != len(binary):
        allowed = f"{begin}, the sum of {_SIZE}"
        raise malformed("body", given=f"{len(binary)} bytes behind the document", allowed=allowed)


def _checked(name: str, size: object, left: int) -> int:
    if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size <= left:
        given = f"{size}" if isinstance(size, int) else type(size).__name__
        allowed = f"at most {left}, the bytes behind the document"
        raise malformed(f"{name[:64]}.{_SIZE}", given=given, allowed=allowed)
    return size


def _flat(data: list[object], depth: int) -> Generator[object]:
    """The elements of nested lists; deeper ones are no elements."""
    for one in data:
        if isinstance(one, list) and depth > 1:
            yield from _flat(cast("list[object]", one), depth - 1)
        else:
            yield one


def _response(answer: InferAnswer, given: InferRequest) -> Response:
    binary = _binary_outputs(answer, given)
    numbers = sum(prod(output.shape) for output in answer.outputs if output.name not in binary)
    if numbers > VALUES_AT_ONCE:
        allowed = f"true, for outputs of more than {VALUES_AT_ONCE} elements"
        raise malformed(_ALL_BINARY, given=f"false for {numbers} elements", allowed=allowed)
    document = InferResponse(
        model_name=answer.model.name,
        model_version=answer.model.version,
        id=given.id or None,
        parameters={"warnings": answer.warnings_text} if answer.warnings else None,
        outputs=[_output(output, is_binary=output.name in binary) for output in answer.outputs],
    )
    head = document.model_dump_json(exclude_none=True).encode()
    if not binary:
        return Response(head, media_type=JSON)
    behind = [output.data for output in answer.outputs if output.name in binary]
    headers = {HEADER_LENGTH: f"{len(head)}"}
    return Response(b"".join([head, *behind]), headers=headers, media_type=OCTETS)


def _binary_outputs(answer: InferAnswer, given: InferRequest) -> set[str]:
    """Names of the outputs that are behind the document."""
    default = given.parameters.get(_ALL_BINARY, False)
    chosen = {one.name: one.parameters.get(_BINARY, default) for one in given.outputs}
    return {one.name for one in answer.outputs if chosen.get(one.name, default) is True}


def _output(output: WireTensor, *, is_binary: bool) -> InferredOutput:
    return InferredOutput(
        name=output.name,
        datatype=output.datatype,
        shape=output.shape,
        parameters={_SIZE: len(output.data)} if is_binary else None,
        data=None if is_binary else numbers_of(output),
    )
