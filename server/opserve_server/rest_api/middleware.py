"""Around every HTTP call: its id, and an answer to errors that nobody foresaw."""

from collections.abc import Mapping

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from opserve_server.calls import at_work, call_id, hidden, malformed
from opserve_server.core.observations import Call, Observe
from opserve_server.guard import AUTHORIZATION
from opserve_server.rest_api.errors import refusal

REQUEST_ID = "X-Request-Id"
_AUTHORIZATION = AUTHORIZATION.encode()
_PATH_LIMIT = 2048
_UNKNOWN = "unknown"
"""What a call is called whose path no route has."""


class Calls:
    """Gives every call its id and turns what no table knows into problem+json.

    Args:
        app: What answers.
        observe: Told of every call.
        names: What each endpoint is called.
    """

    def __init__(self, app: ASGIApp, *, observe: Observe, names: Mapping[object, str]) -> None:
        self._app = app
        self._observe = observe
        self._names = names

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves one call."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        others = [pair for pair in scope["headers"] if pair[0] != _AUTHORIZATION]
        headers = Headers(raw=others)
        request_id = call_id(headers.get(REQUEST_ID))
        call = Call(face="rest", method=_UNKNOWN, request_id=request_id, headers=headers)
        with at_work(call, self._observe):
            try:
                await self._serve(scope, receive, send, call)
            finally:
                call.method = self._names.get(scope.get("endpoint"), _UNKNOWN)

    async def _serve(self, scope: Scope, receive: Receive, send: Send, call: Call) -> None:
        request_id = call.request_id
        request = Request(scope)
        request.state.request_id = request_id
        begun = False

        async def send_with_id(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                call.outcome = str(message["status"])
                MutableHeaders(scope=message)[REQUEST_ID] = request_id
            await send(message)

        if len(scope["path"]) > _PATH_LIMIT:
            too_long = malformed("path", given=scope["path"], allowed=f"{_PATH_LIMIT} characters")
            await refusal(request, too_long)(scope, receive, send_with_id)
            return
        try:
            await self._app(scope, receive, send_with_id)
        except ClientDisconnect:
            return
        except Exception as error:
            name = f"{request.method} {request.url.path}"
            answer = refusal(request, hidden(error, call=name, request_id=request_id))
            if begun:  # too late for an answer: the server cuts the connection short
                raise
            await answer(scope, receive, send_with_id)
