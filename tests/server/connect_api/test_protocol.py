"""The Connect protocol: media types, versions, deadlines, compression, envelopes, bounds."""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from dataclasses import replace
from typing import Any

import httpx2
import pytest

from opserve_server.core.accounts import Accounts
from opserve_server.core.history import News
from opserve_server.guard import Guard, KeyPolicy
from opserve_server.open_calls import OpenCalls
from opserve_server.rest_api.app import RestApi
from server.connect_api.conftest import MESSAGE_LIMIT, Built, app_of
from server.connect_api.frames import framed, parted
from server.guards import CALLS, GUESSES, ServiceWithKeys
from server.recording import ENTRIES, SESSION, RecordingService
from system.test_security_tenants import end_of

ALLOCATE, SYNCHRONIZE, WATCH, READ = (
    f"/opserve.v1.{name}"
    for name in (
        "MemoryService/Allocate",
        "StreamService/SynchronizeStream",
        "StreamService/WatchStream",
        "MemoryService/Read",
    )
)
STREAMED = {"content-type": "application/connect+json"}


@pytest.fixture
def outcomes(built: Built, service: RecordingService) -> Callable[[], list[tuple[str, str, str]]]:
    """API, method and outcome of every ended call."""
    del service
    return lambda: [(call.api, call.method, call.outcome) for call in built.ended]


def blocked(service: RecordingService, monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """Makes commands and watches wait for ever; set when one is cancelled."""
    cancelled = asyncio.Event()

    async def run(*_: object, **__: object) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    async def news() -> AsyncGenerator[News]:
        yield ENTRIES[0]
        await run()

    monkeypatch.setattr(service, "run", run)
    monkeypatch.setattr(service, "_news", news)
    return cancelled


def scope_of(
    path: str, app: RestApi, media_type: str = "application/json", *, key: str = ""
) -> dict[str, Any]:
    """A request as the server passes it on; without a Content-Length."""
    return {
        "type": "http",
        "method": "POST",
        "path": path,
        "query_string": b"",
        "headers": [
            (b"content-type", media_type.encode()),
            (b"host", b"localhost"),
            *([(b"authorization", f"Bearer {key}".encode())] if key else []),
        ],
        "client": ("127.0.0.1", 1),
        "app": app,
    }


@pytest.mark.parametrize("given", ["", "text/plain", "application/connect+json", "application/x"])
async def test_an_unknown_media_type_of_a_unary_call_is_rejected(
    given: str, client: httpx2.AsyncClient, service: RecordingService
) -> None:
    answer = await client.post(ALLOCATE, content=b"{}", headers={"content-type": given})
    assert answer.status_code == 415
    assert answer.headers["accept-post"] == "application/proto, application/json"
    assert answer.json()["message"].startswith("Content-Type ")
    assert not service.asked


async def test_an_unknown_media_type_of_a_stream_is_rejected(client: httpx2.AsyncClient) -> None:
    answer = await client.post(WATCH, json={})
    assert answer.status_code == 415
    assert answer.headers["accept-post"] == "application/connect+proto, application/connect+json"


@pytest.mark.parametrize("verb", ["GET", "PUT", "DELETE", "HEAD"])
async def test_only_post_is_accepted(verb: str, client: httpx2.AsyncClient) -> None:
    answer = await client.request(verb, ALLOCATE)
    assert (answer.status_code, answer.headers["allow"]) == (405, "POST")


@pytest.mark.parametrize(
    "path", ["MemoryService/Steal", "memoryservice/Allocate", "MemoryService/Allocate/", "x"]
)
async def test_an_unknown_rpc_is_not_found(path: str, client: httpx2.AsyncClient) -> None:
    assert (await client.post(f"/opserve.v1.{path}", json={})).status_code == 404


async def test_an_unknown_version_is_rejected(client: httpx2.AsyncClient) -> None:
    known = await client.post(ALLOCATE, json={}, headers={"connect-protocol-version": "1"})
    answer = await client.post(ALLOCATE, json={}, headers={"connect-protocol-version": "2"})
    assert (known.status_code, answer.status_code) == (200, 400)
    assert answer.json()["message"] == "Connect-Protocol-Version does not accept 2; it accepts 1."


@pytest.mark.parametrize("given", ["", "x", "-1", "1.5", "12345678901", "\u0661"])
async def test_a_malformed_timeout_is_rejected(given: str, client: httpx2.AsyncClient) -> None:
    headers = {"connect-timeout-ms": given.encode()}
    answer = await client.post(ALLOCATE, json={}, headers=headers)  # type: ignore[arg-type]
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_argument")


async def test_a_call_is_cancelled_at_its_deadline(
    client: httpx2.AsyncClient,
    service: RecordingService,
    outcomes: Callable[[], list[tuple[str, str, str]]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cancelled = blocked(service, monkeypatch)
    answer = await client.post(SYNCHRONIZE, json={}, headers={"connect-timeout-ms": "1"})
    assert cancelled.is_set()
    assert (answer.status_code, answer.json()["code"]) == (504, "deadline_exceeded")
    assert answer.json()["message"].startswith("The call did not end within 1 ms")
    assert outcomes() == [("connect", "SynchronizeStream", "deadline_exceeded")]


async def test_a_stream_ends_at_its_deadline_after_its_messages(
    client: httpx2.AsyncClient, service: RecordingService, monkeypatch: pytest.MonkeyPatch
) -> None:
    cancelled = blocked(service, monkeypatch)
    headers = {"connect-timeout-ms": "50", **STREAMED}
    answer = await client.post(WATCH, content=framed(b"{}"), headers=headers)
    messages, end = parted(answer.content)
    assert cancelled.is_set()
    assert (answer.status_code, len(messages)) == (200, 1)
    assert end["error"]["code"] == "deadline_exceeded"


@pytest.mark.parametrize(
    ("path", "media_type"), [(SYNCHRONIZE, "application/json"), (WATCH, STREAMED["content-type"])]
)
async def test_a_call_is_cancelled_when_its_client_disconnects(
    path: str,
    media_type: str,
    built: Built,
    service: RecordingService,
    outcomes: Callable[[], list[tuple[str, str, str]]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cancelled = blocked(service, monkeypatch)
    body = framed(b"{}") if path == WATCH else b"{}"
    sent = [
        {"type": "http.request", "body": body, "more_body": False},
        {"type": "http.disconnect"},
    ]

    async def receive() -> Any:
        return sent.pop(0)

    async def send(message: Any) -> None:
        assert path == WATCH, message

    await built.app(scope_of(path, built.app, media_type), receive, send)
    assert cancelled.is_set()
    assert [outcome for _, _, outcome in outcomes()] == [""]


@pytest.mark.parametrize("given", ["gzip", "br", "x"])
async def test_compression_is_not_supported(given: str, client: httpx2.AsyncClient) -> None:
    answer = await client.post(ALLOCATE, json={}, headers={"content-encoding": given})
    assert (answer.status_code, answer.json()["code"]) == (501, "unimplemented")
    assert answer.headers["accept-encoding"] == "identity"
    headers = {"connect-content-encoding": given, **STREAMED}
    answer = await client.post(WATCH, content=framed(b"{}"), headers=headers)
    assert parted(answer.content)[1]["error"]["code"] == "unimplemented"
    assert answer.headers["connect-accept-encoding"] == "identity"
    answer = await client.post(ALLOCATE, json={}, headers={"content-encoding": "identity"})
    assert answer.status_code == 200


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\0\0\0",
        framed(b"{}")[:-1],
        framed(b"{}") + b"x",
        framed(b"{}") * 2,
        framed(b"{}", flags=1),
        framed(b"{}", flags=2),
        b"\0\xff\xff\xff\xff{}",
    ],
)
async def test_a_malformed_envelope_is_rejected(body: bytes, client: httpx2.AsyncClient) -> None:
    answer = await client.post(WATCH, content=body, headers=STREAMED)
    messages, end = parted(answer.content)
    assert (answer.status_code, messages) == (200, [])
    assert end["error"]["code"] == "invalid_argument"


@pytest.mark.parametrize(
    ("form", "body"), [("proto", b"\xff"), ("proto", b"\x0a\x05abc"), ("json", b"[1")]
)
async def test_a_malformed_message_is_rejected_without_internals(
    form: str, body: bytes, client: httpx2.AsyncClient
) -> None:
    headers = {"content-type": f"application/{form}"}
    answer = await client.post(ALLOCATE, content=body, headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_argument")
    assert answer.json()["message"].startswith("message does not accept ")


async def test_a_larger_message_is_rejected(
    client: httpx2.AsyncClient, service: RecordingService
) -> None:
    async def without_length() -> AsyncGenerator[bytes]:
        yield b"x" * MESSAGE_LIMIT
        yield b"x"

    headers = {"content-type": "application/proto"}
    for content in (b"x" * (MESSAGE_LIMIT + 1), without_length()):
        answer = await client.post(ALLOCATE, content=content, headers=headers)
        assert (answer.status_code, answer.json()["code"]) == (429, "resource_exhausted")
    assert not service.asked


async def test_the_body_of_an_unauthenticated_caller_is_not_read(
    app_with_keys: RestApi, with_keys: ServiceWithKeys
) -> None:
    async def receive() -> Any:
        raise AssertionError("nothing of the body is read")

    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    for key in ("", with_keys.metrics):
        await app_with_keys(scope_of(ALLOCATE, app_with_keys, key=key), receive, send)
    assert [one["status"] for one in sent if "status" in one] == [401, 403]


async def test_an_unexpected_error_reveals_nothing(
    client: httpx2.AsyncClient, service: RecordingService
) -> None:
    service.error = RuntimeError("a secret")
    answer = await client.post(ALLOCATE, json={})
    assert (answer.status_code, answer.json()["code"]) == (500, "internal")
    assert answer.json()["message"].startswith("The service failed: ")
    headers = STREAMED
    answer = await client.post(READ, content=framed(b"{}"), headers=headers)
    assert parted(answer.content)[1]["error"]["message"].startswith("The service failed: ")
    assert b"secret" not in answer.content


@pytest.mark.parametrize("quiet", [False, True])
async def test_a_watch_over_connect_ends_with_its_key(
    quiet: bool,
    app_with_keys: RestApi,
    with_keys: ServiceWithKeys,
    service: RecordingService,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def news() -> AsyncGenerator[News]:
        yield ENTRIES[0]
        end_of(with_keys.guard, with_keys.lab)
        if quiet:
            await asyncio.Event().wait()
        yield ENTRIES[1]

    monkeypatch.setattr(service, "_news", news)
    transport = httpx2.ASGITransport(app=app_with_keys)
    headers = {"authorization": f"Bearer {with_keys.lab}", **STREAMED}
    async with httpx2.AsyncClient(transport=transport, base_url="http://service.example") as client:
        answer = await client.post(WATCH, content=framed(b"{}"), headers=headers)
    messages, end = parted(answer.content)
    assert len(messages) == 1
    assert end["error"]["code"] == "unauthenticated"


async def test_a_watch_ends_with_the_service(
    app_with_keys: RestApi,
    with_keys: ServiceWithKeys,
    service: RecordingService,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    blocked(service, monkeypatch)
    calls: OpenCalls = with_keys.guard.open_calls
    begun = asyncio.Event()
    parts: list[bytes] = []
    body = [{"type": "http.request", "body": framed(b"{}"), "more_body": False}]

    async def receive() -> Any:
        return body.pop() if body else await asyncio.Event().wait()

    async def send(message: Any) -> None:
        parts.append(message.get("body", b""))
        if len(parts) == 2:
            begun.set()

    scope = scope_of(WATCH, app_with_keys, STREAMED["content-type"], key=with_keys.lab)
    watching = asyncio.create_task(app_with_keys(scope, receive, send))
    await begun.wait()
    await calls.end(within_s=0.0)
    await watching
    messages, end = parted(b"".join(parts))
    assert (len(messages), end["error"]["code"]) == (1, "unavailable")


async def test_a_web_page_of_another_host_is_rejected_without_keys(
    client: httpx2.AsyncClient,
) -> None:
    answer = await client.post(ALLOCATE, json={}, headers={"host": "evil.example"})
    assert (answer.status_code, answer.json()["code"]) == (403, "permission_denied")


async def test_calls_are_observed_with_the_codes_of_connect(
    client: httpx2.AsyncClient,
    service: RecordingService,
    outcomes: Callable[[], list[tuple[str, str, str]]],
) -> None:
    await client.post(ALLOCATE, json={"session": SESSION})
    await client.post(ALLOCATE, json={"session": 1})
    await client.post(WATCH, content=framed(b"{}"), headers=STREAMED)
    await client.post(WATCH, content=b"", headers=STREAMED)
    assert outcomes() == [
        ("connect", "Allocate", "ok"),
        ("connect", "Allocate", "invalid_argument"),
        ("connect", "WatchStream", "ok"),
        ("connect", "WatchStream", "invalid_argument"),
    ]
    assert len(service.asked) == 1


async def test_a_body_that_does_not_arrive_in_time_is_rejected(
    service: RecordingService,
) -> None:
    impatient = replace(CALLS, silence_s=0.01)
    guard = Guard(Accounts(), unknown_keys=GUESSES, calls=impatient, keys=KeyPolicy.NEVER)
    app = app_of(service, guard)
    sent: list[Any] = []
    body = [{"type": "http.request", "body": b"{", "more_body": True}]

    async def receive() -> Any:
        return body.pop() if body else await asyncio.Event().wait()

    async def send(message: Any) -> None:
        sent.append(message)

    await app(scope_of(ALLOCATE, app), receive, send)
    assert sent[0]["status"] == 429
    assert json.loads(sent[1]["body"])["code"] == "resource_exhausted"
    assert not service.asked
