"""Unary calls of protobuf messages over gRPC or Connect, without the SDK."""

from types import TracebackType
from typing import Self

import grpc

from opserve_client.http_blocking import HttpConnections
from opserve_client.wire.http_messages import Request, origin_of
from opserve_client.wire.methods import Method, RequestT, ResponseT

TIMEOUT_S = 60.0
_OK = 200


class RawCalls:
    """Calls to a service, one at a time on each thread.

    Args:
        address: Address of a gRPC API, or URL of an HTTP port, for Connect.
        api_key: API key of the caller; empty for a service without keys.
    """

    def __init__(self, address: str, *, api_key: str = "") -> None:
        authorization = (("authorization", f"Bearer {api_key}"),) if api_key else ()
        self._metadata = authorization
        self._fields = (*authorization, ("Content-Type", "application/proto"))
        self._channel: grpc.Channel | None = None
        self._http: HttpConnections | None = None
        if address.startswith("http://"):
            self._http = HttpConnections(origin_of(address), None)
        else:
            self._channel = grpc.insecure_channel(address)
        self._stubs: dict[str, grpc.UnaryUnaryMultiCallable[bytes, bytes]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._http is not None:
            self._http.close()
        if self._channel is not None:
            self._channel.close()

    def call(self, method: Method[RequestT, ResponseT], request: RequestT) -> ResponseT:
        """Makes a call; an error of the service ends the benchmark."""
        body = request.SerializeToString()
        return method.response.FromString(self._send(method.path, body))

    def _send(self, path: str, body: bytes) -> bytes:
        if self._http is not None:
            asked = Request("POST", path, self._fields, body)
            status, answer = self._http.call(asked, timeout_s=TIMEOUT_S)
            assert status == _OK, answer
            return answer
        stub = self._stubs.get(path)
        if stub is None:
            assert self._channel is not None
            stub = self._stubs[path] = self._channel.unary_unary(path)
        return stub(body, metadata=self._metadata, timeout=TIMEOUT_S)
