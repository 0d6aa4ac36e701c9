"""connectrpc's own Python client calls every kind of RPC of the service, in both forms."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from connectrpc.client import ConnectClient
from connectrpc.code import Code
from connectrpc.compat import google_protobuf_binary_codec, google_protobuf_json_codec
from connectrpc.errors import ConnectError
from connectrpc.method import IdempotencyLevel, MethodInfo, StreamType
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message_factory import GetMessageClass

from opserve_client.private_service import Addresses
from server.entry_points import every_rpc

pytestmark = pytest.mark.system
CODECS = {"proto": google_protobuf_binary_codec, "json": google_protobuf_json_codec}
RPCS = {rpc.name: rpc for rpc in every_rpc()}


@pytest.fixture(params=CODECS)
async def client(
    service: Addresses, request: pytest.FixtureRequest
) -> AsyncIterator[ConnectClient]:
    # By default it sends gzip.
    made = ConnectClient(service.rest, codec=CODECS[request.param](), send_compression=None)
    async with made:
        yield made


def described(rpc: MethodDescriptor) -> MethodInfo[Any, Any]:
    streams = StreamType.SERVER_STREAM if rpc.server_streaming else StreamType.UNARY
    return MethodInfo(
        name=rpc.name,
        service_name=rpc.containing_service.full_name,
        input=GetMessageClass(rpc.input_type),
        output=GetMessageClass(rpc.output_type),
        idempotency_level=IdempotencyLevel.UNKNOWN,
        stream_type=StreamType.CLIENT_STREAM if rpc.client_streaming else streams,
    )


async def call(client: ConnectClient, name: str, timeout_ms: int = 30_000, **fields: object) -> Any:
    method = described(RPCS[name])
    request = method.input(**fields)
    return await client.execute_unary(request=request, method=method, timeout_ms=timeout_ms)


async def test_it_runs_commands_and_reads_streams(client: ConnectClient) -> None:
    session = (await call(client, "OpenSession", profile="ascend910b")).session
    try:
        buffer = (await call(client, "Allocate", session=session, size_bytes=600_000)).buffer
        await call(client, "Fill", session=session, buffer=buffer, value=7, size_bytes=600_000)
        read = described(RPCS["Read"])
        request = read.input(session=session, buffer=buffer, size_bytes=600_000)
        parts = [
            part.data async for part in client.execute_server_stream(request=request, method=read)
        ]
        assert len(parts) > 1
        assert b"".join(parts) == b"\7" * 600_000
    finally:
        await call(client, "CloseSession", session=session)


async def test_it_gets_the_code_message_and_details_of_an_error(client: ConnectClient) -> None:
    with pytest.raises(ConnectError) as caught:
        await call(client, "GetSession", session="none")
    assert caught.value.code is Code.NOT_FOUND
    assert caught.value.message.startswith("'none' is not one of your sessions")
    (detail,) = caught.value.details
    assert detail.type_name == "google.rpc.ErrorInfo"
    watch = described(RPCS["WatchStream"])
    with pytest.raises(ConnectError) as caught:
        async for _ in client.execute_server_stream(
            request=watch.input(session="none"), method=watch
        ):
            pass
    assert caught.value.code is Code.NOT_FOUND


async def test_its_deadline_ends_a_watch(client: ConnectClient) -> None:
    session = (await call(client, "OpenSession", profile="ascend910b")).session
    watch = described(RPCS["WatchStream"])
    with pytest.raises(ConnectError) as caught:
        async for _ in client.execute_server_stream(
            request=watch.input(session=session), method=watch, timeout_ms=20
        ):
            pass
    assert caught.value.code is Code.DEADLINE_EXCEEDED
    await call(client, "CloseSession", session=session)


@pytest.mark.parametrize("name", ["Write", "Verify", "ReportRun"])
async def test_a_stream_of_requests_is_not_implemented(client: ConnectClient, name: str) -> None:
    method = described(RPCS[name])

    async def requests() -> AsyncIterator[Any]:
        yield method.input()

    with pytest.raises(ConnectError) as caught:
        await client.execute_client_stream(request=requests(), method=method)
    assert caught.value.code is Code.UNIMPLEMENTED
    assert ": use P" in caught.value.message
