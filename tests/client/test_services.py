"""A client of a farm: follows moves, and goes on at another service when its own is lost."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
from google.protobuf.message import Message

from client.fake_service import FakeService, refusal
from client.samples import convolution, numbers
from opserve.v1.session_service_pb2 import (
    FarmService,
    GetSessionRequest,
    GetSessionResponse,
    OpenSessionRequest,
    OpenSessionResponse,
    Waiting,
)
from opserve_client import Client, OpserveError, ServiceUnreachable, Session, SessionLost
from opserve_client._sync.connection import Connection
from opserve_client._sync.services import HOPS, Services
from opserve_client._sync.session_opener import SessionOpener
from opserve_client.access import access_like, access_to
from opserve_client.conform.targets.device import SessionOptions, Sessions
from opserve_client.errors import Moved, MovedMembers, error_for
from opserve_client.handles import Handles
from opserve_client.transports import MemoryTransport
from opserve_client.wire.methods import GET_SESSION, OPEN_SESSION, Method

HOME = "grpc://a:1"


def moved(name: str) -> OpserveError:
    members = MovedMembers(name, f"grpc://{name}:1", f"http://{name}:2")
    return error_for("elsewhere", code=207005, name="FAKE", parameter="session", moved=members)


class Farm:
    """Services in memory.

    Attributes:
        moves: The service to which one sends sessions on.
        lost: Services that do not answer.
        opened: Services that opened or found a session, in order.
        hops: Services at which a request for a session arrived, in order.
        connected: Addresses to which the client connected.
        waits: Answers that a request still waits, before b opens a session.
    """

    def __init__(self, names: str) -> None:
        self.fakes = {name: FakeService() for name in names}
        self.moves: dict[str, str] = {}
        self.lost: set[str] = set()
        self.opened: list[str] = []
        self.hops: list[str] = []
        self.connected: list[str] = []
        self.waits = 0
        self.services = Services(
            self.connection("a"), is_http=False, address=HOME, connect=self.connect
        )

    def session(self, *, wait_s: float = 0.0) -> Session:
        opener = SessionOpener(self.services, OpenSessionRequest(wait_s=wait_s), None)
        connection, opened = opener.open()
        return Session(connection, opened, last=Handles(), opener=opener)

    def connect(self, address: str) -> Connection:
        self.connected.append(address)
        return self.connection(address[len("grpc://") : -len(":1")])

    def connection(self, name: str) -> Connection:
        def handler(method: Method[Any, Any], request: Message) -> Message:
            return self._answer(name, method, request)

        transport = MemoryTransport(handler)
        return Connection(transport, timeout_s=9.0, recovery_s=30.0, sleep=lambda _: None)

    def _answer(self, name: str, method: Method[Any, Any], request: Message) -> Message:
        if name in self.lost:
            raise refusal(507901, "connection", "gone")
        if isinstance(request, OpenSessionRequest | GetSessionRequest):
            self.hops.append(name)
            if name in self.moves and not getattr(request, "here", False):
                raise moved(self.moves[name])
            if self.waits and name == "b":
                self.waits -= 1
                return OpenSessionResponse(waiting=Waiting(position=1))
            self.opened.append(name)
        answer = self.fakes[name](method, request)
        if isinstance(answer, OpenSessionResponse | GetSessionResponse):
            answer.services.extend(self._listed([name, *sorted(self.fakes.keys() - {name})]))
        return answer

    def _listed(self, names: Iterable[str]) -> list[FarmService]:
        return [
            FarmService(name=name, grpc=f"grpc://{name}:1", http=f"http://{name}:2")
            for name in names
            if name not in self.lost
        ]


def test_a_session_opens_where_the_service_sends_it_and_calls_go_there() -> None:
    farm = Farm("ab")
    farm.moves = {"a": "b"}
    with farm.session() as session:
        session.run(convolution())
    assert farm.hops == ["a", "b"]
    assert farm.fakes["b"].calls == ["OpenSession", "Run", "CloseSession"]
    assert farm.fakes["a"].calls == []
    assert farm.connected == ["grpc://b:1"]


def test_a_session_behind_a_load_balancer_is_called_at_its_own_service() -> None:
    farm = Farm("ab")
    farm.services = Services(
        farm.connection("b"), is_http=False, address="grpc://front:1", connect=farm.connect
    )
    with farm.session():
        pass
    assert farm.connected == ["grpc://b:1"]


def test_a_session_is_resumed_at_its_own_service() -> None:
    farm = Farm("ab")
    farm.moves = {"a": "b"}
    connection, _ = farm.services.call(
        GET_SESSION, GetSessionRequest(session="s"), at=farm.services.home
    )
    assert farm.opened == ["b"]
    assert connection is not farm.services.home


def test_after_four_moves_the_last_service_must_answer() -> None:
    farm = Farm("ab")
    farm.moves = {"a": "b", "b": "a"}
    with farm.session():
        pass
    assert farm.hops == ["a", "b"] * (HOPS // 2) + ["a"]
    assert farm.opened == ["a"]
    with pytest.raises(Moved, match="elsewhere") as error:
        farm.services.call(GET_SESSION, GetSessionRequest(session="s"), at=farm.services.home)
    assert (error.value.service, error.value.code) == ("b", 207005)


def test_a_client_with_a_transport_alone_raises_the_move() -> None:
    farm = Farm("ab")
    farm.moves = {"a": "b"}
    alone = Services(farm.services.home)
    with pytest.raises(Moved):
        alone.call(OPEN_SESSION, OpenSessionRequest(), at=alone.home)


def test_a_lost_service_loses_its_session_and_calls_on_arrays_go_on_at_another() -> None:
    farm = Farm("abc")
    call = convolution()
    with farm.session() as session:
        tensor = session.upload(numbers(4, 3, 3, 3))
        farm.lost = {"a"}
        result = session.run(call)
        np.testing.assert_array_equal(result.grad_input, call.input)
        with pytest.raises(ServiceUnreachable):
            tensor.download()
        with pytest.raises(SessionLost, match="Its buffers, streams and queued work are gone"):
            session.run(convolution(weight=tensor))
    assert farm.opened[0] == "a"
    assert set(farm.opened[1:]) <= {"b", "c"}


def test_conform_goes_on_at_another_service(monkeypatch: pytest.MonkeyPatch) -> None:
    farm = Farm("ab")
    client = Client(transport=MemoryTransport(farm.fakes["a"]), sleep=lambda _: None)
    monkeypatch.setattr(client, "_services", farm.services)
    sessions = Sessions(client, SessionOptions(), sleep=lambda _: None)
    sessions.on("ascend910b")
    farm.lost = {"a"}
    sessions.run("ascend910b", lambda session: session.upload(numbers(2, 2)))
    assert farm.opened == ["a", "b"]
    sessions.close()


def test_a_call_on_tensors_of_a_lost_service_is_not_repeated() -> None:
    farm = Farm("ab")
    session = farm.session()
    tensor = session.upload(numbers(4, 3, 3, 3))
    farm.lost = {"a"}
    with pytest.raises(ServiceUnreachable):
        session.run(convolution(weight=tensor))
    assert farm.opened == ["a"]


def test_where_every_service_is_lost_a_session_says_so() -> None:
    farm = Farm("ab")
    farm.session()
    farm.lost = {"a", "b"}
    with pytest.raises(ServiceUnreachable):
        farm.session()
    farm.lost = {"a"}
    with farm.session():
        assert farm.opened == ["a", "b"]


def test_a_waiting_request_is_repeated_where_it_waits() -> None:
    farm = Farm("ab")
    farm.moves = {"a": "b"}
    farm.waits = 2
    with farm.session(wait_s=60.0):
        assert farm.hops == ["a", "b", "b", "b"]


def test_a_client_with_tls_is_not_sent_to_a_service_without() -> None:
    def access(address: str) -> Any:
        return access_to(address, api_key=None, tls=None, allow_plaintext=None)

    own, other = access("grpcs://a:1"), access("grpc://b:1")
    with pytest.raises(OpserveError, match="give every service of the farm TLS") as error:
        access_like(own, other)
    assert (error.value.code, error.value.parameter) == (107000, "address")
    assert access_like(other, own) is own
    assert access_like(other, other) is other
