"""Uploads and downloads resume after the bytes that arrived, and detect corruption."""

from collections.abc import Generator, Iterator, Sequence

import numpy as np
import pytest
from google.protobuf.message import DecodeError
from hypothesis import example, given
from hypothesis import strategies as st
from typing_extensions import override

from opserve.chunks import crc32c
from opserve.v1.conformance_service_pb2 import (
    ReportRunRequest,
    ReportRunResponse,
    VerifyRequest,
    VerifyResponse,
)
from opserve.v1.memory_service_pb2 import ReadRequest, ReadResponse, WriteRequest, WriteResponse
from opserve_client import AclrtError, OpserveError, ServiceUnreachable
from opserve_client._sync import connection
from opserve_client._sync.connection import TRANSFER_ATTEMPTS, Connection
from opserve_client.errors import corrupted, unreachable
from opserve_client.transports import Transport
from opserve_client.wire import chunks
from opserve_client.wire.chunks import read_chunk
from opserve_client.wire.conformance_methods import ArchiveT
from opserve_client.wire.methods import Method, RequestT, ResponseT

SIZE = 1000
SEGMENT = 64


class Broken(Transport):
    """A buffer behind a connection that fails repeatedly, each time after some bytes.

    Attributes:
        content: Of the buffer.
        breaks: Bytes that arrive before each failure.
        carried: Bytes that were sent, those that were lost included.
    """

    def __init__(self, breaks: list[int], error: OpserveError | None = None) -> None:
        self.content = bytearray(SIZE)
        self.breaks = breaks
        self.carried = 0
        self._error = error or unreachable("planted")

    @override
    def call(
        self, method: Method[RequestT, ResponseT], request: RequestT, *, timeout_s: float
    ) -> ResponseT:
        raise AssertionError("no transfer makes a call")

    @override
    def write(self, request: WriteRequest, data: memoryview, *, timeout_s: float) -> WriteResponse:
        assert (request.session, request.buffer) == ("s", 3)
        assert request.size_bytes == len(data)
        whole = self._through(len(data))
        self.content[request.offset : request.offset + whole] = data[:whole]
        self.carried += whole
        if whole < len(data):
            raise self._error
        return WriteResponse(size_bytes=len(data))

    @override
    def read(self, request: ReadRequest, *, timeout_s: float) -> Iterator[bytes]:
        assert (request.session, request.buffer) == ("s", 3)
        whole = self._through(request.size_bytes)
        for start in range(request.offset, request.offset + whole, 7):
            yield bytes(self.content[start : min(start + 7, request.offset + whole)])
        self.carried += whole
        if whole < request.size_bytes:
            raise self._error

    @override
    def watch(self, method: Method[RequestT, ResponseT], request: RequestT) -> Generator[ResponseT]:
        raise AssertionError("no transfer watches a stream")

    @override
    def archive(
        self, method: Method[RequestT, ArchiveT], request: RequestT, *, timeout_s: float
    ) -> Iterator[bytes]:
        raise AssertionError("no transfer brings an archive")

    @override
    def verify(
        self, request: VerifyRequest, data: memoryview, *, timeout_s: float
    ) -> VerifyResponse:
        raise AssertionError("no transfer asks for a verdict")

    @override
    def report(
        self, messages: Sequence[ReportRunRequest], *, timeout_s: float
    ) -> ReportRunResponse:
        raise AssertionError("no transfer reports a run")

    @override
    def close(self) -> None:
        pass

    def _through(self, size: int) -> int:
        if self.breaks and self.breaks[0] < size:
            return self.breaks.pop(0)
        return size


@pytest.fixture
def data(monkeypatch: pytest.MonkeyPatch) -> bytes:
    monkeypatch.setattr(connection, "SEGMENT_BYTES", SEGMENT)
    return np.random.default_rng(8).integers(0, 256, SIZE, np.uint8).tobytes()


def through(transport: Transport) -> Connection:
    return Connection(transport, timeout_s=1, recovery_s=0, sleep=lambda _: None)


@pytest.mark.parametrize("code", [507901, 207004, 507052])
def test_a_download_resumes_after_the_bytes_that_arrived(data: bytes, code: int) -> None:
    error = AclrtError("planted", code=code)
    transport = Broken([300, 0, 1, 600, 98], error)
    transport.content[:] = data
    request = ReadRequest(session="s", buffer=3, size_bytes=SIZE)
    assert through(transport).read(request).tobytes() == data
    assert transport.carried == SIZE, "no byte came twice"
    assert request.size_bytes == SIZE


def test_an_upload_sends_again_no_more_than_a_segment(data: bytes) -> None:
    breaks = [1, 63, 0, 40, 7]
    transport = Broken(list(breaks))
    through(transport).write(WriteRequest(session="s", buffer=3), memoryview(data))
    assert transport.content == data
    assert transport.carried == SIZE + sum(breaks)


def test_a_transfer_that_gets_nowhere_is_given_up(data: bytes) -> None:
    transport = Broken([0] * 2 * TRANSFER_ATTEMPTS)
    with pytest.raises(ServiceUnreachable):
        through(transport).write(WriteRequest(session="s", buffer=3), memoryview(data))
    assert len(transport.breaks) == TRANSFER_ATTEMPTS
    with pytest.raises(ServiceUnreachable):
        through(transport).read(ReadRequest(session="s", buffer=3, size_bytes=SIZE))
    assert not transport.breaks


def test_a_refusal_is_returned_at_once(data: bytes) -> None:
    transport = Broken([0] * 9, AclrtError("planted", code=107017))
    with pytest.raises(AclrtError, match="107017"):
        through(transport).write(WriteRequest(session="s", buffer=3), memoryview(data))
    assert len(transport.breaks) == 8


@given(data=st.binary(max_size=300), checked=st.booleans())
def test_a_chunk_is_read_as_the_message_that_it_is(data: bytes, checked: bool) -> None:
    chunk = ReadResponse(data=data)
    if checked:
        chunk.crc32c = crc32c(data)
    assert read_chunk(chunk.SerializeToString()) == data
    with pytest.raises(AclrtError) as raised:
        read_chunk(ReadResponse(data=data, crc32c=crc32c(data) ^ 1).SerializeToString())
    assert raised.value.code == corrupted(given="", allowed="").code == 507052


@given(message=st.binary(max_size=40))
@example(b"")
@example(b"\x0a\xff\xff\xff\xff\xff")
@example(b"\x0a\x01\x15\x15\0\0\0\0")
@example(ReadResponse(data=b"a", crc32c=crc32c(b"a")).SerializeToString() + b"\x0a\0")
@example(ReadResponse(data=b"a", crc32c=crc32c(b"b")).SerializeToString() + b"\x0a\1b")
def test_bytes_that_are_no_chunk_are_refused_or_read_as_protobuf_does(message: bytes) -> None:
    try:
        expected = ReadResponse.FromString(message)
    except DecodeError:
        with pytest.raises(OpserveError):
            read_chunk(message)
        return
    if expected.HasField("crc32c") and expected.crc32c != crc32c(expected.data):
        with pytest.raises(AclrtError, match="507052"):
            read_chunk(message)
    else:
        assert read_chunk(message) == expected.data


@given(size=st.integers(0, 700))
def test_an_upload_is_the_messages_that_it_is(size: int) -> None:
    data = bytes(index % 251 for index in range(size))
    request = WriteRequest(session="s", buffer=3, offset=7, size_bytes=size)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chunks, "CHUNK_BYTES", 200)
        messages = [*map(WriteRequest.FromString, chunks.write_messages(request, memoryview(data)))]
    assert b"".join(message.data for message in messages) == data
    assert all(message.crc32c == crc32c(message.data) for message in messages)
    assert [message.session for message in messages] == ["s"] + [""] * (len(messages) - 1)
    assert (messages[0].buffer, messages[0].offset, messages[0].size_bytes) == (3, 7, size)
