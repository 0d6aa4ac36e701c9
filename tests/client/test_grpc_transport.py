"""Calls over a real gRPC connection to a fake service on loopback."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Event, Thread
from typing import Any, NoReturn

import grpc
import numpy as np
import pytest
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.message import Message
from google.rpc import error_details_pb2, status_pb2  # pyright: ignore[reportMissingTypeStubs]

from client.fake_service import FakeService, refusal
from client.samples import convolution, numbers
from opserve.v1.command_service_pb2 import Command
from opserve.v1.memory_service_pb2 import ReadRequest, ReadResponse, WriteRequest
from opserve_client import (
    AclnnError,
    AclrtError,
    AsyncClient,
    CallTimedOut,
    Client,
    ExecutionFailed,
    OpserveError,
    ServiceUnreachable,
)
from opserve_client.wire.methods import METHODS, READ, WRITE, Method

Context = grpc.ServicerContext


def refused(context: grpc.ServicerContext, error: OpserveError) -> NoReturn:
    metadata = {"code": str(error.code), "parameter": error.parameter, "request_id": "r1"}
    if isinstance(error, ExecutionFailed):
        metadata["executor"] = str(error.executor)
    info = error_details_pb2.ErrorInfo(reason=error.name, domain="opserve", metadata=metadata)
    packed = AnyMessage()
    packed.Pack(info)
    status = status_pb2.Status(code=3, message=error.message, details=[packed])
    context.set_trailing_metadata((("grpc-status-details-bin", status.SerializeToString()),))
    context.abort(grpc.StatusCode.INVALID_ARGUMENT, error.message)


class FakeApi:
    """The fake service as gRPC calls it.

    Attributes:
        chunks: Sizes of the received pieces of uploads.
        open: Calls wait until it is set.
    """

    def __init__(self, fake: FakeService) -> None:
        self._fake = fake
        self.chunks: list[int] = []
        self.open = Event()
        self.open.set()

    def unary(self, method: Method[Any, Any]) -> Callable[[Message, Context], Message]:
        def behave(request: Message, context: Context) -> Message:
            self.open.wait(30)
            try:
                return self._fake(method, request)
            except OpserveError as error:
                refused(context, error)

        return behave

    def write(self, requests: Iterator[WriteRequest], _: Context) -> Message:
        whole = WriteRequest()
        for request in requests:
            self.chunks.append(len(request.data))
            data = whole.data + request.data
            whole.MergeFrom(request)
            whole.data = data
        assert whole.size_bytes == len(whole.data)
        return self._fake(WRITE, whole)

    def read(self, request: ReadRequest, context: Context) -> Iterator[ReadResponse]:
        try:
            answer = self._fake(READ, request)
        except OpserveError as error:
            refused(context, error)
        assert isinstance(answer, ReadResponse)
        for start in range(0, len(answer.data), 2**20):
            yield ReadResponse(data=answer.data[start : start + 2**20])


@pytest.fixture
def api(fake: FakeService) -> FakeApi:
    return FakeApi(fake)


@pytest.fixture
def address(api: FakeApi) -> Iterator[str]:
    server = grpc.server(ThreadPoolExecutor(4))
    for method in METHODS:
        types = (method.request.FromString, method.response.SerializeToString)
        if method is WRITE:
            handler = grpc.stream_unary_rpc_method_handler(api.write, *types)
        elif method is READ:
            handler = grpc.unary_stream_rpc_method_handler(api.read, *types)
        else:
            handler = grpc.unary_unary_rpc_method_handler(api.unary(method), *types)
        service, name = method.rpc.split("/")
        generic = grpc.method_handlers_generic_handler(f"opserve.v1.{service}", {name: handler})
        server.add_generic_rpc_handlers((generic,))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield f"127.0.0.1:{port}"
    server.stop(None).wait()


@pytest.mark.parametrize("scheme", ["", "grpc://"])
def test_a_call_survives_a_round_trip(address: str, scheme: str) -> None:
    with Client(scheme + address) as client, client.open_session() as session:
        call = convolution()
        np.testing.assert_array_equal(session.run(call).grad_input, call.input)
        assert [device.name for device in client.list_devices()] == ["ascend910b-0"]


def test_bulk_bytes_travel_in_chunks_of_256_kib(address: str, api: FakeApi) -> None:
    array = numbers(3 * 2**18 + 5)
    with Client(address) as client, client.open_session() as session:
        np.testing.assert_array_equal(session.upload(array).download(), array)
    assert api.chunks == [2**18] * 12 + [20]


async def test_the_asyncio_client_does_the_same(address: str) -> None:
    array = numbers(2**18 + 5)
    async with AsyncClient(address) as client, client.open_session() as session:
        tensor = await session.upload(array)
        np.testing.assert_array_equal(await tensor.download(), array)
        call = convolution(input=numbers(2, 3, 100, 100))
        result = await session.run(call)
        np.testing.assert_array_equal(result.grad_input, call.input)


async def test_a_session_can_be_awaited_and_closed_by_hand(address: str, fake: FakeService) -> None:
    async with AsyncClient(address) as client:
        session = await client.open_session()
        await session.close()
    assert fake.calls == ["OpenSession", "CloseSession"]


@pytest.mark.parametrize("method", ["Allocate", "Read"])
def test_an_error_arrives_with_all_its_members(
    address: str, fake: FakeService, method: str
) -> None:
    with Client(address) as client, client.open_session() as session:
        buffer = session.allocate(8)
        fake.failures[method] = [refusal(161002, "groups", 3)]
        with pytest.raises(AclnnError, match="161002 FAKE: groups does not accept 3") as raised:
            buffer.read() if method == "Read" else session.allocate(8)
    error = raised.value
    assert (error.code, error.name, error.parameter) == (161002, "FAKE", "groups")
    assert error.request_id == "r1"


async def test_an_error_arrives_at_the_asyncio_client(address: str, fake: FakeService) -> None:
    async with AsyncClient(address) as client, client.open_session() as session:
        fake.failures["CreateStream"] = [refusal(207008, "stream", 9)]
        with pytest.raises(AclrtError, match="207008"):
            await session.create_stream()


def test_a_failed_execution_names_its_executor(address: str, fake: FakeService) -> None:
    failed = ExecutionFailed("a kernel failed", code=507015)
    failed.executor = 7
    fake.failures["SynchronizeStream"] = [failed]
    with (
        Client(address) as client,
        client.open_session() as session,
        pytest.raises(ExecutionFailed) as raised,
    ):
        session.default_stream.synchronize()
    assert raised.value.executor == 7


def test_an_unreachable_service_raises_service_unreachable() -> None:
    with (
        Client("127.0.0.1:1") as client,
        pytest.raises(
            ServiceUnreachable, match=r"507901 .*127\.0\.0\.1:1: .*opserve serve"
        ) as raised,
    ):
        client.list_devices()
    assert raised.value.name == "ACL_ERROR_RT_SOCKET_CLOSE"


def test_no_answer_in_time_is_call_timed_out(address: str, api: FakeApi) -> None:
    api.open.clear()
    with Client(address, timeout_s=1.0) as client, pytest.raises(CallTimedOut, match="107019"):
        client.list_devices()
    api.open.set()


def test_another_server_is_reported_as_an_internal_error() -> None:
    server = grpc.server(ThreadPoolExecutor(1))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    with Client(f"127.0.0.1:{port}") as client, pytest.raises(AclrtError, match="UNIMPLEMENTED"):
        client.list_devices()
    server.stop(None).wait()


def test_a_message_above_the_limit_is_reported_with_the_servers_text(
    address: str, fake: FakeService
) -> None:
    with Client(address) as client, client.open_session() as session:
        before = len(fake.calls)
        data = bytes(5 * 2**20)  # grpc's own limit is 4 MiB
        with pytest.raises(AclrtError, match=r"larger than max .*5242") as raised:
            session.submit([Command(write=WriteRequest(buffer=1, data=data))])
        assert (raised.value.code, raised.value.name) == (207012, "ACL_ERROR_RT_OVER_LIMIT")
        assert fake.calls[before:] == []


def test_a_grpc_client_at_a_rest_port_is_notified() -> None:
    with HTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        address = f"127.0.0.1:{server.server_port}"
        with Client(address) as client, pytest.raises(ServiceUnreachable) as raised:
            client.list_devices()
        server.shutdown()
    assert address in raised.value.message
    assert f"write http://{address}" in raised.value.message


def test_a_rest_client_at_a_grpc_port_is_notified(address: str) -> None:
    with Client(f"http://{address}") as client, pytest.raises(ServiceUnreachable) as raised:
        client.list_devices()
    assert f"for gRPC, write grpc://{address}" in raised.value.message
