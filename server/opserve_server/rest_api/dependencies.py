"""Dependencies of the routes: the service, the caller, its session and its request."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from inspect import Parameter, Signature
from typing import Annotated, Any, TypeVar, get_type_hints

from fastapi import Body, Depends, Header, Path, Query
from pydantic import BaseModel
from starlette.requests import Request

from opserve_kernels.docstrings import descriptions_of
from opserve_server.administration import Administration
from opserve_server.calls import caller
from opserve_server.conformance.conformance import Conformance
from opserve_server.core.commands import Command
from opserve_server.core.fair_slots import FairSlots
from opserve_server.core.principal import Principal, Scope
from opserve_server.core.service import Service
from opserve_server.inference.infer import Inference
from opserve_server.rest_api.models import STRICT, derived, parse, parsed_values, values_of
from opserve_server.rest_api.one_shot import RunLimits

AnswerT = TypeVar("AnswerT")


class NoFields(BaseModel):
    """An object without fields."""

    model_config = STRICT


@dataclass(frozen=True, slots=True, kw_only=True)
class Backend:
    """The objects behind the routes of one application, as `app.state.backend`.

    Attributes:
        service: The core.
        administration: The administration calls.
        conformance: The conformance calls.
        inference: Calls of models.
        accepts: Whether the service accepts calls, or is about to end.
        metrics_page: The metrics in Prometheus' text format.
        document: The OpenAPI document; building it takes half a second, once.
        body_bytes_limit: Maximum size of a JSON body, bytes.
        run_limits: Bounds on one-shot calls.
        run_slots: Slots of one-shot calls.
    """

    service: Service
    administration: Administration
    conformance: Conformance
    inference: Inference
    accepts: Callable[[], bool]
    metrics_page: Callable[[], bytes]
    document: Callable[[], bytes]
    body_bytes_limit: int
    run_limits: RunLimits
    run_slots: FairSlots


def backend_of(request: Request) -> Backend:
    """The backend of the application that received the request."""
    backend: Backend = request.app.state.backend
    return backend


def service_of(request: Request) -> Service:
    """The core behind the application."""
    return backend_of(request).service


Behind = Annotated[Backend, Depends(backend_of)]
Core = Annotated[Service, Depends(service_of)]
Caller = Annotated[Principal, Depends(caller)]
SessionName = Annotated[str, Path(description="Name of the session.")]
Handle = Annotated[int, Path(ge=0, description="Handle of the object.")]
IdempotencyKey = Annotated[
    str,
    Header(
        alias="Idempotency-Key",
        description="Names the call: a retry with the same key returns the first answer.",
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Requires:
    """A dependency that admits callers with a scope; None admits every caller.

    The middleware checks it before it reads anything of the request.
    """

    scope: Scope | None

    def __call__(self) -> None:
        """Does nothing: the middleware has admitted the caller."""


def requires(scope: Scope | None) -> Any:  # noqa: ANN401  # as Depends has it
    """The required scope of the routes of a router."""
    return Depends(Requires(scope=scope))


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionCall:
    """A call in a session.

    Attributes:
        service: The core.
        principal: The caller.
        name: Name of the session.
        request_id: The call's Idempotency-Key; empty where it has none.
    """

    service: Service
    principal: Principal
    name: str
    request_id: str

    async def run(self, command: Command, answer: type[AnswerT]) -> AnswerT:
        """Runs a command, whose result has the type of the answer."""
        result = await self.service.run(
            self.principal, self.name, command, request_id=self.request_id
        )
        assert isinstance(result, answer), "each command has one type of result"
        return result


def session_call(
    service: Core, principal: Caller, session: SessionName, request_id: IdempotencyKey = ""
) -> SessionCall:
    """The call in the session that the path names."""
    return SessionCall(service=service, principal=principal, name=session, request_id=request_id)


InSession = Annotated[SessionCall, Depends(session_call)]


def from_body(
    request: type,
    *in_path: str,
    without: Sequence[str] = (),
    name: str = "",
    long_list: str = "",
) -> Any:  # noqa: ANN401  # as Depends has it
    """A dependency that makes a request of the core; fields outside the path are in the body.

    Args:
        request: Its dataclass.
        in_path: Fields in the path.
        without: Fields in neither.
        name: Name of the request in the names of models; empty: that of the dataclass.
        long_list: Field that makes a body too long to be parsed in one iteration of the event loop.
    """
    model = _model_of(request, (*in_path, *without), f"{name or request.__name__}Body")

    async def read(document: bytes) -> dict[str, Any]:
        if long_list:
            return await parsed_values(model, document, long_list)
        return values_of(parse(model, document))

    return Depends(FromBody(model, read, partial(_made, request), _path_of(request, in_path)))


def through_body(model: type[BaseModel], read: Callable[[bytes], Awaitable[object]]) -> Any:  # noqa: ANN401  # as Depends has it
    """A dependency with the result of `read` on a body; the model is its schema."""
    return Depends(FromBody(model, read, _as_read, {}))


def from_query(request: type, *in_path: str, without: Sequence[str] = ()) -> Any:  # noqa: ANN401
    """A dependency like from_body, with the fields outside the path in the query."""
    model = _model_of(request, (*in_path, *without), f"{request.__name__}Query")

    def make(*, given: BaseModel, **path: object) -> object:
        return _made(request, given=values_of(given), **path)

    return Depends(_Declared(make, model, Query(), _path_of(request, in_path)))


class _Declared:
    """A function with a signature for FastAPI, since its models are made at run time."""

    def __init__(
        self,
        make: Callable[..., object],
        model: type[BaseModel],
        given: Any,  # noqa: ANN401  # what FastAPI's functions return
        path: Mapping[str, Any],
    ) -> None:
        self._make = make
        kind = Parameter.KEYWORD_ONLY
        self.__signature__ = Signature(
            [
                Parameter("given", kind, annotation=model, default=given),
                *(Parameter(part, kind, annotation=path[part]) for part in path),
            ]
        )

    def __call__(self, **values: object) -> object:
        """The value."""
        return self._make(**values)


class FromBody(_Declared):
    """A dependency that parses its body itself.

    Args:
        model: Schema of the body.
        read: Parses the body.
        make: Makes the value from the parsed body and the parameters of the path.
        path: Annotations of these parameters.

    Attributes:
        read: Parses the body.
    """

    def __init__(
        self,
        model: type[BaseModel],
        read: Callable[[bytes], Awaitable[object]],
        make: Callable[..., object],
        path: Mapping[str, Any],
    ) -> None:
        super().__init__(make, model, Body(default=model()), path)
        self.read = read


def _as_read(*, given: object) -> object:
    return given


def _made(request: Any, *, given: Mapping[str, Any], **path: object) -> object:  # noqa: ANN401  # a dataclass
    return request(**path, **given)


def _path_of(request: type, in_path: Sequence[str]) -> Mapping[str, Any]:
    hints, described = get_type_hints(request), descriptions_of(request)
    bounds: Mapping[type, Mapping[str, Any]] = {int: {"ge": 0}}
    return {
        name: Annotated[
            hints[name], Path(description=described[name], **bounds.get(hints[name], {}))
        ]
        for name in in_path
    }


def _model_of(request: type, without: Sequence[str], name: str) -> type[BaseModel]:
    model = derived(request, name, without=without)
    return model if model.model_fields else NoFields
