"""Uploads and downloads in chunks, with checksums."""

from collections.abc import Iterable, Iterator

from google.protobuf.message import DecodeError

from opserve.chunks import READ, WRITTEN, crc32c
from opserve.v1.conformance_service_pb2 import CaseResult, ReportRunRequest, VerifyRequest
from opserve.v1.memory_service_pb2 import ReadResponse, WriteRequest
from opserve_client.errors import corrupted, malformed_answer

CHUNK_BYTES = 256 * 2**10
"""Size of a piece of bulk bytes; larger ones would delay the calls of other tenants."""

_RESULTS = 1000  # the service's limit for a message


def write_messages(request: WriteRequest, data: memoryview) -> Iterator[bytes]:
    """Yields the messages of an upload: WriteRequests, the first of which names the range."""
    header = request.SerializeToString()
    for start in range(0, max(len(data), 1), CHUNK_BYTES):
        yield WRITTEN.message(data[start : start + CHUNK_BYTES], header)
        header = b""


def verify_messages(request: VerifyRequest, data: memoryview) -> Iterator[VerifyRequest]:
    """Yields the messages of an upload of outputs, the first of which names the case."""
    header = request
    for start in range(0, max(len(data), 1), CHUNK_BYTES):
        message = VerifyRequest(data=bytes(data[start : start + CHUNK_BYTES]))
        message.MergeFrom(header)
        yield message
        header = VerifyRequest()


def report_messages(
    request: ReportRunRequest, results: Iterable[CaseResult]
) -> Iterator[ReportRunRequest]:
    """Yields the messages of a reported run, the first of which names the suite and the target."""
    message, size_bytes = request, 0
    for result in results:
        if size_bytes > CHUNK_BYTES or len(message.results) == _RESULTS:
            yield message
            message, size_bytes = ReportRunRequest(), 0
        message.results.append(result)
        size_bytes += result.ByteSize()
    yield message


def joined(messages: Iterable[ReportRunRequest]) -> ReportRunRequest:
    """Merges the messages of a reported run into one."""
    whole = ReportRunRequest()
    for message in messages:
        whole.MergeFrom(message)
    return whole


def read_chunk(message: bytes) -> memoryview:
    """Returns the bytes of a ReadResponse after a check of their checksum.

    Raises:
        AclrtError: 507052, the checksum is wrong; 500000, the message is no ReadResponse.
    """
    parts = READ.parts(message)
    if parts is None or parts[-1]:
        try:
            whole = ReadResponse.FromString(message)
        except DecodeError as error:
            raise malformed_answer(f"read: the answer has a malformed chunk: {error}") from error
        if not whole.HasField("crc32c"):
            return memoryview(whole.data)
        parts = memoryview(whole.data), whole.crc32c, b""
    data, checksum, _ = parts
    if checksum != (found := crc32c(data)):
        raise corrupted(given=f"{checksum:#010x}", allowed=f"{found:#010x}")
    return data
