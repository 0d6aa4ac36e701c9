"""Endpoints of HTTP requests, for the one middleware: REST routes and RPCs of the Connect API."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Protocol

from starlette.responses import Response
from starlette.types import ASGIApp

from opserve_server.core.errors import OpserveError
from opserve_server.core.principal import Scope


class Refusal(Protocol):
    """Makes the complete answer to a call that failed before its answer began."""

    def __call__(self, error: OpserveError, *, path: str, request_id: str) -> Response:
        """The answer."""
        ...


class Ending(Protocol):
    """Makes the last part of an answer that an error ends."""

    def __call__(self, error: OpserveError, *, request_id: str) -> bytes:
        """The part."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorForm:
    """Form of errors.

    Attributes:
        refusal: Answer to a call that failed before its answer began.
        ending: Last part of an answer that had begun; None where no error can follow a part.
    """

    refusal: Refusal
    ending: Ending | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """The target of a request.

    Attributes:
        api: Its API, for observers.
        name: Name of its method, for observers.
        scope: Required scope; None admits every caller.
        app: Serves the call of an admitted caller.
        errors: Form of its errors.
    """

    api: str
    name: str
    scope: Scope | None
    app: ASGIApp
    errors: ErrorForm


Rpc = Callable[[str], Endpoint]
"""The endpoint of an RPC for a Content-Type."""
NO_RPCS: Mapping[str, Rpc] = MappingProxyType({})
