"""Bytes to and from an HTTP server: one PUT, and one GET that is read as it arrives."""

from opserve_client.http_blocking import HttpConnections
from opserve_client.wire.http_messages import Request, origin_of

_TIMEOUT_S = 60.0
_FIRST_ERROR = 300


class HttpBytes:
    """The content of a resource.

    Args:
        url: URL of the server.
        put: Path that receives the bytes.
        get: Path that sends them.
    """

    def __init__(self, url: str, *, put: str, get: str) -> None:
        self._http = HttpConnections(origin_of(url), None)
        self._put, self._get = put, Request("GET", get, ())

    def upload(self, data: memoryview) -> None:
        fields = (("Content-Type", "application/octet-stream"),)
        status, answer = self._http.call(
            Request("PUT", self._put, fields, data), timeout_s=_TIMEOUT_S
        )
        assert status < _FIRST_ERROR, answer

    def download(self, target: memoryview) -> None:
        offset = 0
        with self._http.stream(self._get, timeout_s=_TIMEOUT_S) as answer:
            assert answer.status < _FIRST_ERROR, answer.status
            for piece in answer.pieces():
                target[offset : offset + len(piece)] = piece
                offset += len(piece)
        assert offset == len(target)
