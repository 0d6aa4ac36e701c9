"""The application behind REST's address: every HTTP call, from its id to its answer."""

from collections.abc import Sequence
from contextlib import ExitStack
from urllib.parse import quote

from starlette.requests import ClientDisconnect, Request
from starlette.responses import RedirectResponse, Response, StreamingResponse
from starlette.routing import Match, Route
from starlette.types import Receive, Scope, Send

from opserve_server.calls import AtWork, call_id, hidden, malformed
from opserve_server.core.errors import OpserveError
from opserve_server.core.observations import Call, Observe
from opserve_server.guard import AUTHORIZATION, Credentials, Guard
from opserve_server.rest_api.doors import check_host, credentials_of, until_refused
from opserve_server.rest_api.errors import not_routed, refusal

REQUEST_ID = "x-request-id"
_PATH_LIMIT = 2048
_UNKNOWN = "unknown"
"""What a call is called whose path no route has."""


class RestFace:
    """Gives every call its id, asks the guard, and turns whatever is raised into problem+json.

    Starlette's own application would do it in six layers, each with its price.

    Args:
        routes: What can be called. No parameter of a path has a slash in it.
        guard: Asked before every call.
        observe: Told of every call.

    Attributes:
        routes: The same.
    """

    def __init__(self, routes: Sequence[Route], *, guard: Guard, observe: Observe) -> None:
        self.routes = routes
        self._guard = guard
        self._observe = observe
        self._by_form: dict[tuple[str, int], list[Route]] = {}
        for route in routes:
            for method in route.methods or ():
                self._by_form.setdefault((method, route.path.count("/")), []).append(route)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves one call."""
        assert scope["type"] == "http", "the server has neither lifespans nor websockets"
        # Backwards: of headers that come twice the first counts, as for Starlette.
        pairs = reversed(scope["headers"])
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in pairs}
        authorization = headers.pop(AUTHORIZATION, None)
        route = self._route_of(scope)
        call = Call(
            face="rest",
            method=_UNKNOWN if route is None else route.name,
            request_id=call_id(headers.get(REQUEST_ID)),
            headers=headers,
        )
        request = Request(scope, receive)
        with AtWork(call, self._observe), ExitStack() as at_end:
            try:
                answer = await self._answer(request, route, call, authorization, at_end)
                call.outcome = str(answer.status_code)
                answer.raw_headers.append((REQUEST_ID.encode(), call.request_id.encode()))
                await answer(scope, receive, send)
            except ClientDisconnect:
                pass
            except Exception as error:
                _foreseen(error, request, call)
                raise  # too late for an answer: the server cuts the connection short

    def _route_of(self, scope: Scope) -> Route | None:
        path: str = scope["path"]
        if len(path) > _PATH_LIMIT:
            return None
        for route in self._by_form.get((scope["method"], path.count("/")), ()):
            match, found = route.matches(scope)
            if match is Match.FULL:
                scope.update(found)
                return route
        return None

    async def _answer(
        self,
        request: Request,
        route: Route | None,
        call: Call,
        authorization: str | None,
        at_end: ExitStack,
    ) -> Response:
        try:
            if route is None:
                answer = self._answer_nowhere(request, call)
            else:
                credentials = credentials_of(request, authorization)
                answer = await self._answer_by(route, request, call, credentials, at_end)
            await self._guard.turn(call)
        except ClientDisconnect:
            raise
        except Exception as error:  # noqa: BLE001  # told, or hidden and logged
            await self._guard.turn(call)
            told = _foreseen(error, request, call)
            return refusal(told, path=request.scope["path"], request_id=call.request_id)
        return answer

    async def _answer_by(
        self,
        route: Route,
        request: Request,
        call: Call,
        credentials: Credentials,
        at_end: ExitStack,
    ) -> Response:
        if self._guard.keyless:
            check_host(call.headers)
        place = self._guard.enter(call, credentials, route.name)
        at_end.callback(place.leave)
        with place:
            await self._guard.admit(call, route.name)
            answer: Response = await route.endpoint(request)
        if isinstance(answer, StreamingResponse):
            allowed = self._guard.while_allowed(answer.body_iterator, call, credentials)
            answer.body_iterator = until_refused(allowed)
        return answer

    def _answer_nowhere(self, request: Request, call: Call) -> Response:
        """The answer where no route fits: an unknown path, or a method that it does not have."""
        path: str = request.scope["path"]
        if len(path) > _PATH_LIMIT:
            raise malformed("path", given=path, allowed=f"{_PATH_LIMIT} characters")
        if path.endswith("/") and self._methods_of(path.rstrip("/")):
            query = request.scope["query_string"].decode("latin-1")
            return RedirectResponse(f"{quote(path.rstrip('/'))}?{query}".removesuffix("?"))
        return not_routed(
            request.method, path, methods=self._methods_of(path), request_id=call.request_id
        )

    def _methods_of(self, path: str) -> set[str]:
        routes = [route for route in self.routes if route.path_regex.match(path)]
        return {method for route in routes for method in route.methods or ()}


def _foreseen(error: Exception, request: Request, call: Call) -> OpserveError:
    """What a caller is told of an error: next to nothing, where nobody foresaw it."""
    if isinstance(error, OpserveError):
        return error
    name = f"{request.method} {request.scope['path']}"
    return hidden(error, call=name, request_id=call.request_id)
