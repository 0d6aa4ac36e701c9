"""Bytes up and down in chunks, with their checksums."""

from collections.abc import Iterable, Iterator

from google.protobuf.message import DecodeError

from opserve.chunks import READ, WRITTEN, crc32c
from opserve.v1.conformance_service_pb2 import CaseResult, ReportRunRequest, VerifyRequest
from opserve.v1.memory_service_pb2 import ReadResponse, WriteRequest
from opserve_client.errors import corrupted, incomprehensible

CHUNK_BYTES = 256 * 2**10
"""Piece in which bulk bytes travel; a larger one holds up other tenants' calls."""

_RESULTS = 1000  # as many as a service takes in a message


def write_messages(request: WriteRequest, data: memoryview) -> Iterator[bytes]:
    """The messages of an upload: WriteRequests, the first of which says where to."""
    header = request.SerializeToString()
    for start in range(0, max(len(data), 1), CHUNK_BYTES):
        yield WRITTEN.message(data[start : start + CHUNK_BYTES], header)
        header = b""


def verify_messages(request: VerifyRequest, data: memoryview) -> Iterator[VerifyRequest]:
    """The messages of outputs that are to be judged, the first of which says of which case."""
    header = request
    for start in range(0, max(len(data), 1), CHUNK_BYTES):
        message = VerifyRequest(data=bytes(data[start : start + CHUNK_BYTES]))
        message.MergeFrom(header)
        yield message
        header = VerifyRequest()


def report_messages(
    request: ReportRunRequest, results: Iterable[CaseResult]
) -> Iterator[ReportRunRequest]:
    """The messages of a run that was judged elsewhere, the first of which says what was tried."""
    message, size_bytes = request, 0
    for result in results:
        if size_bytes > CHUNK_BYTES or len(message.results) == _RESULTS:
            yield message
            message, size_bytes = ReportRunRequest(), 0
        message.results.append(result)
        size_bytes += result.ByteSize()
    yield message


def joined(messages: Iterable[ReportRunRequest]) -> ReportRunRequest:
    """The one message that others say together."""
    whole = ReportRunRequest()
    for message in messages:
        whole.MergeFrom(message)
    return whole


def read_chunk(message: bytes) -> memoryview:
    """The bytes of a ReadResponse, which are those that were sent.

    Raises:
        AclrtError: 507052, they are others; 500000, it is no such message.
    """
    parts = READ.parts(message)
    if parts is None or parts[-1]:
        try:
            whole = ReadResponse.FromString(message)
        except DecodeError as error:
            raise incomprehensible(f"read: a chunk that is none: {error}") from error
        if not whole.HasField("crc32c"):
            return memoryview(whole.data)
        parts = memoryview(whole.data), whole.crc32c, b""
    data, checksum, _ = parts
    if checksum != (found := crc32c(data)):
        raise corrupted(given=f"{checksum:#010x}", allowed=f"{found:#010x}")
    return data
