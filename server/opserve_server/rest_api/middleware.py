"""Around every HTTP call: its id, and an answer to errors that nobody foresaw."""

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from opserve_server.calls import call_id, hidden, malformed
from opserve_server.rest_api.errors import refusal

REQUEST_ID = "X-Request-Id"
_PATH_LIMIT = 2048


class Calls:
    """Gives every call its id and turns what no table knows into problem+json."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves one call."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        request_id = call_id(Headers(scope=scope).get(REQUEST_ID))
        request = Request(scope)
        request.state.request_id = request_id
        begun = False

        async def send_with_id(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                MutableHeaders(scope=message)[REQUEST_ID] = request_id
            await send(message)

        if len(scope["path"]) > _PATH_LIMIT:
            too_long = malformed("path", given=scope["path"], allowed=f"{_PATH_LIMIT} characters")
            await refusal(request, too_long)(scope, receive, send_with_id)
            return
        try:
            await self.app(scope, receive, send_with_id)
        except ClientDisconnect:
            return
        except Exception as error:
            name = f"{request.method} {request.url.path}"
            answer = refusal(request, hidden(error, call=name, request_id=request_id))
            if begun:  # too late for an answer: the server cuts the connection short
                raise
            await answer(scope, receive, send_with_id)
