"""ASGI middleware of every HTTP call: its id, caller, admission and errors."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any
from urllib.parse import quote

from fastapi import APIRouter
from starlette.requests import ClientDisconnect
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Send
from starlette.types import Scope as HttpScope

from opserve_server.addresses import is_loopback_host
from opserve_server.calls import ObservedCall, call_id, internal_error, malformed
from opserve_server.core.errors import NotAllowed, OpserveError, TooManyUnknownKeys, Unauthenticated
from opserve_server.core.observations import Call, Observe
from opserve_server.core.principal import Scope
from opserve_server.guard import AUTHORIZATION, UNAUTHENTICATED, Credentials, Guard
from opserve_server.open_calls import CallSlot
from opserve_server.rest_api.connections import CONNECTION
from opserve_server.rest_api.endpoints import Endpoint, ErrorForm, Rpc
from opserve_server.rest_api.errors import not_routed, refusal
from opserve_server.rest_api.route import ServiceRoute

REQUEST_ID = "x-request-id"
_PATH_LIMIT = 2048
_API, _UNKNOWN = "rest", "unknown"
"""API, and method of a call without an endpoint, for observers."""
_PROBLEMS = ErrorForm(refusal=refusal)
_RPC_VERB = "POST"


class CallMiddleware:
    """Calls the endpoint of each request, after the guard has admitted the caller.

    It finds the endpoint in a table, whereas FastAPI's router tries one route after the other.

    Args:
        routes: The routes. No parameter of a path has a slash in it.
        rpcs: RPCs of the Connect API by path.
        guard: Authenticates and admits callers.
        observe: Observer of every call.
    """

    def __init__(
        self,
        *,
        routes: Iterable[ServiceRoute],
        rpcs: Mapping[str, Rpc],
        guard: Guard,
        observe: Observe,
    ) -> None:
        self._rpcs = rpcs
        self._guard = guard
        self._observe = observe
        self._routes = list(routes)
        self._by_form: dict[tuple[str, int], list[tuple[ServiceRoute, Endpoint]]] = {}
        for route in self._routes:
            endpoint = _endpoint_of(route)
            for method in _methods_of(route):
                form = method, route.path.count("/")
                self._by_form.setdefault(form, []).append((route, endpoint))

    async def __call__(self, scope: HttpScope, receive: Receive, send: Send) -> None:
        """Serves one call."""
        assert scope["type"] == "http", "the server has neither lifespans nor websockets"
        headers = _headers_of(scope)
        credentials = _credentials_of(scope, headers.pop(AUTHORIZATION, None))
        endpoint = self._find(scope, headers)
        call = Call(
            api=_API if endpoint is None else endpoint.api,
            method=_UNKNOWN if endpoint is None else endpoint.name,
            request_id=call_id(headers.get(REQUEST_ID)),
            headers=headers,
        )
        errors = _PROBLEMS if endpoint is None else endpoint.errors
        answer = _Answer(send, call, errors, self._guard, credentials, _connection_of(scope))
        with ObservedCall(call, self._observe), answer, suppress(ClientDisconnect):
            try:
                await self._serve(endpoint, scope, receive, answer)
            except ClientDisconnect:
                raise
            except Exception as error:
                answered = _foreseen(error, scope, call)
                if not answer.begun:
                    refused = errors.refusal(
                        answered, path=scope["path"], request_id=call.request_id
                    )
                    await refused(scope, receive, answer)
                elif errors.ending is not None:
                    await answer.end(errors.ending(answered, request_id=call.request_id))
                else:
                    raise  # too late for an answer: the server cuts the connection short

    async def _serve(
        self, endpoint: Endpoint | None, scope: HttpScope, receive: Receive, answer: "_Answer"
    ) -> None:
        if endpoint is None:
            await self._not_routed(scope, answer.call)(scope, receive, answer)
            return
        if self._guard.keyless:
            _check_host(answer.call.headers)
        with answer.enter(endpoint.scope) as slot:
            scope.setdefault("state", {})["slot"] = slot
            await self._guard.admit(answer.call, endpoint.scope)
            await answer.until_refused(endpoint.app, scope, receive)

    def _find(self, scope: HttpScope, headers: Mapping[str, str]) -> Endpoint | None:
        path: str = scope["path"]
        rpc = self._rpcs.get(path)
        if rpc is not None and scope["method"] == _RPC_VERB:
            return rpc(headers.get("content-type", ""))
        if len(path) > _PATH_LIMIT:
            return None
        for route, endpoint in self._by_form.get((scope["method"], path.count("/")), ()):
            if matched := route.path_regex.match(path):
                convertors = route.param_convertors
                scope["path_params"] = {
                    name: convertors[name].convert(text)
                    for name, text in matched.groupdict().items()
                }
                return endpoint
        return None

    def _not_routed(self, scope: HttpScope, call: Call) -> Response:
        """The answer for an unknown path, or a method that it does not have."""
        path: str = scope["path"]
        if len(path) > _PATH_LIMIT:
            raise malformed("path", given=path, allowed=f"{_PATH_LIMIT} characters")
        if path in self._rpcs:
            return not_routed(
                scope["method"], path, methods={_RPC_VERB}, request_id=call.request_id
            )
        if path.endswith("/") and self._methods_at(path.rstrip("/")):
            query = scope["query_string"].decode("latin-1")
            return RedirectResponse(f"{quote(path.rstrip('/'))}?{query}".removesuffix("?"))
        methods = self._methods_at(path)
        return not_routed(scope["method"], path, methods=methods, request_id=call.request_id)

    def _methods_at(self, path: str) -> set[str]:
        found = [route for route in self._routes if route.path_regex.match(path)]
        return {method for route in found for method in _methods_of(route)}


class _Answer:
    """Sends an answer; its begin and each of its parts wait for fair admission of the tenant.

    Attributes:
        call: The call.
        credentials: Its credentials.
        begun: Whether the answer's status was sent.
    """

    def __init__(
        self,
        send: Send,
        call: Call,
        errors: ErrorForm,
        guard: Guard,
        credentials: Credentials,
        connection: Mapping[str, Any],
    ) -> None:
        self.call = call
        self.credentials = credentials
        self.begun = False
        self._complete = False
        self._send = send
        self._ends_with_error = errors.ending is not None
        self._guard = guard
        self._connection = connection
        self._until = asyncio.timeout(None)
        self._slot: CallSlot | None = None

    def __enter__(self) -> None:
        """The call has a slot from `enter` until the end of the block."""

    def __exit__(self, *_: object) -> None:
        if self._slot is not None:
            self._slot.leave()

    def enter(self, scope: Scope | None) -> CallSlot:
        """Authenticates the caller and takes a slot for the call."""
        self._slot = self._guard.enter(self.call, self.credentials, scope)
        if self._connection and self.call.principal is not UNAUTHENTICATED:
            self._connection["serve_tenant"]()
        return self._slot

    async def __call__(self, message: Message) -> None:
        """Sends a part of the answer."""
        if message["type"] == "http.response.start":
            await self._guard.turn(self.call)
            self.begun = True
            if self._slot is not None and not self._ends_with_error:
                self._slot.begin_answer()
            self.call.outcome = self.call.outcome or str(message["status"])
            message["headers"].append((REQUEST_ID.encode(), self.call.request_id.encode()))
        elif message.get("more_body"):
            await self._guard.turn(self.call)
            self._guard.recheck(self.call, self.credentials)
            self._guard.end_with_key(self._until, self.call, self.credentials)
        else:
            self._complete = True
        await self._send(message)

    async def end(self, body: bytes) -> None:
        """Sends the last part of an answer that has begun, unless it was sent."""
        if not self._complete:
            self._complete = True
            await self._send({"type": "http.response.body", "body": body, "more_body": False})

    async def until_refused(self, app: ASGIApp, scope: HttpScope, receive: Receive) -> None:
        """Serves a call; a long answer is cut off when its caller's key becomes invalid."""
        try:
            async with self._until:
                await app(scope, receive, self)
        except (Unauthenticated, TooManyUnknownKeys):
            if not self.begun or self._ends_with_error:
                raise
            await self.end(b"")
        except TimeoutError:
            if not self._until.expired():
                raise
            if self._ends_with_error:
                self._guard.recheck(self.call, self.credentials)  # raises the error
            await self.end(b"")
        finally:
            self._guard.forget(self._until)


def service_routes(routers: Iterable[APIRouter]) -> Iterable[ServiceRoute]:
    """The routes of routers as they were declared.

    Those of an application that includes the routers are the same, but FastAPI derives the
    parameters of each again, which takes a tenth of a second.
    """
    for router in routers:
        for route in router.routes:
            assert isinstance(route, ServiceRoute), "no other route has a scope"
            yield route


def _endpoint_of(route: ServiceRoute) -> Endpoint:
    scope = route.requires.scope
    return Endpoint(api=_API, name=route.name, scope=scope, app=route.app, errors=_PROBLEMS)


def _methods_of(route: ServiceRoute) -> set[str]:
    methods = route.methods or set()
    return methods | {"HEAD"} if "GET" in methods else methods


def _headers_of(scope: HttpScope) -> dict[str, str]:
    # In reverse: of repeated headers the first counts, as in Starlette.
    pairs = reversed(scope["headers"])
    return {name.decode("latin-1"): value.decode("latin-1") for name, value in pairs}


def _credentials_of(scope: HttpScope, authorization: str | None) -> Credentials:
    def peer() -> str:
        client = scope.get("client")
        return "" if client is None else client[0]

    def certificate() -> Sequence[str]:
        names: Sequence[str] = _connection_of(scope).get("names", ())
        return names

    return Credentials(authorization=authorization, certificate=certificate, peer=peer)


def _connection_of(scope: HttpScope) -> Mapping[str, Any]:
    """The server's data on the connection; empty in tests without one."""
    connection: Mapping[str, Any] = scope.get("extensions", {}).get(CONNECTION, {})
    return connection


def _check_host(headers: Mapping[str, str | bytes]) -> None:
    """Rejects a web page that a browser on this machine was tricked into sending here.

    Such a page has a host name that resolves to a loopback address, and its calls need no key; but
    it cannot hide the name.
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


def _foreseen(error: Exception, scope: HttpScope, call: Call) -> OpserveError:
    """The error for the caller; an unexpected one without any detail."""
    if isinstance(error, OpserveError):
        return error
    name = f"{scope['method']} {scope['path']}"
    return internal_error(error, call=name, request_id=call.request_id)
