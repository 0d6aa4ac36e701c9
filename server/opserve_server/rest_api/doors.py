"""Around every route: the guard, turns, and who may be asked for by which name."""

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing, suppress
from typing import Any, TypeVar

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from opserve_server.core.errors import NotAllowed, Unauthenticated
from opserve_server.core.observations import CALL, Call
from opserve_server.guard import AUTHORIZATION, Credentials, Guard
from opserve_server.rest_api.connections import CERTIFICATE
from opserve_server.settings import is_loopback_host

Chunk = TypeVar("Chunk")
FailureT = TypeVar("FailureT", bound=Exception)
Extensions = Mapping[str, Mapping[str, Sequence[str]]]


def guarded(route: Route, guard: Guard) -> Route:
    """The same route, whose endpoint is reached by those alone who may call it."""

    async def endpoint(request: Request) -> Response:
        call = _call_at_work()
        if guard.keyless:
            _check_host(request)
        credentials = _credentials(request)
        await guard.admit(call, credentials, route.name)
        answer: Response = await route.endpoint(request)
        await guard.turn(call)
        if isinstance(answer, StreamingResponse):
            allowed = guard.while_allowed(answer.body_iterator, call, credentials)
            answer.body_iterator = _until_refused(allowed)
        return answer

    return Route(route.path, endpoint, methods=list(route.methods or ()), name=route.name)


def in_turn(
    answer_to: Callable[[Request, FailureT], Response], guard: Guard
) -> Callable[[Request, Any], Awaitable[Response]]:
    """Answers failures as a function does, each when it is the turn of its caller's tenant."""

    async def answer(request: Request, error: FailureT) -> Response:
        await guard.turn(_call_at_work())
        return answer_to(request, error)

    return answer


def _call_at_work() -> Call:
    call = CALL.get()
    assert call is not None, "the middleware has made it"
    return call


async def _until_refused(chunks: AsyncGenerator[Chunk]) -> AsyncIterator[Chunk]:
    """A long answer, which ends without a word when its caller's key does: it has its status."""
    with suppress(Unauthenticated):
        async with aclosing(chunks):
            async for chunk in chunks:
                yield chunk


def _check_host(request: Request) -> None:
    """Refuses a page of the web that a browser on this machine was led to send here.

    Such a page has a name of its own that was made to resolve to a loopback address, and its calls
    need no key; what they cannot hide is the name.
    """
    given = request.headers.get("host", "")
    if not is_loopback_host(_without_port(given)):
        raise NotAllowed(
            "Host",
            given=given[:64],
            allowed="localhost or a loopback address, while the service has no key",
            reason="a Host that is not loopback, without keys",
        )


def _without_port(host: str) -> str:
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]


def _credentials(request: Request) -> Credentials:
    def peer() -> str:
        return "" if request.client is None else request.client.host

    def certificate() -> Sequence[str]:
        extensions: Extensions = request.scope.get("extensions", {})
        return extensions.get(CERTIFICATE, {}).get("names", ())

    return Credentials(
        authorization=request.headers.get(AUTHORIZATION), certificate=certificate, peer=peer
    )
