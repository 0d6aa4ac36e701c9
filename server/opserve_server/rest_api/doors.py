"""What the guard is told of an HTTP call, and who may be asked for by which name."""

from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing, suppress
from typing import TypeVar

from starlette.requests import Request

from opserve_server.addresses import is_loopback_host
from opserve_server.core.errors import NotAllowed, TooManyGuesses, Unauthenticated
from opserve_server.guard import Credentials
from opserve_server.rest_api.connections import CERTIFICATE

Chunk = TypeVar("Chunk")
Extensions = Mapping[str, Mapping[str, Sequence[str]]]


async def until_refused(chunks: AsyncGenerator[Chunk]) -> AsyncIterator[Chunk]:
    """A long answer, which ends without a word when its caller's key does: it has its status."""
    with suppress(Unauthenticated, TooManyGuesses):
        async with aclosing(chunks):
            async for chunk in chunks:
                yield chunk


def check_host(headers: Mapping[str, str | bytes]) -> None:
    """Refuses a page of the web that a browser on this machine was led to send here.

    Such a page has a name of its own that was made to resolve to a loopback address, and its calls
    need no key; what they cannot hide is the name.
    """
    given = str(headers.get("host", ""))
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


def credentials_of(request: Request, authorization: str | None) -> Credentials:
    """What came with a call."""

    def peer() -> str:
        return "" if request.client is None else request.client.host

    def certificate() -> Sequence[str]:
        extensions: Extensions = request.scope.get("extensions", {})
        return extensions.get(CERTIFICATE, {}).get("names", ())

    return Credentials(authorization=authorization, certificate=certificate, peer=peer)
