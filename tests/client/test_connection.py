"""Request ids, retries and deadlines."""

import pytest

from client.fake_service import FakeService, refusal
from opserve_client import AclrtError, Client, ServiceUnreachable
from opserve_client._sync.connection import ATTEMPTS
from opserve_client.transports import MemoryTransport


def away(times: int) -> list[Exception]:
    return [refusal(507901, "service", "away") for _ in range(times)]


def test_a_call_with_a_request_id_is_tried_three_times_with_the_same_id(
    client: Client, fake: FakeService, pauses: list[float]
) -> None:
    with client.open_session() as session:
        fake.failures["Allocate"] = [*away(ATTEMPTS - 1)]
        session.allocate(8)
    tries = [i for c, i in zip(fake.calls, fake.request_ids, strict=True) if c == "Allocate"]
    assert len(tries) == ATTEMPTS
    assert len(set(tries)) == 1
    assert len(tries[0]) == 32
    assert len(pauses) == ATTEMPTS - 1
    assert 0.05 <= pauses[0] <= 0.1 <= pauses[1] <= 0.2


def test_after_three_attempts_the_error_is_raised(client: Client, fake: FakeService) -> None:
    with client.open_session() as session:
        fake.failures["Allocate"] = away(ATTEMPTS)
        with pytest.raises(ServiceUnreachable):
            session.allocate(8)
    assert fake.calls.count("Allocate") == ATTEMPTS


@pytest.mark.parametrize("code", [107017, 207001, 207005, 500000, 107019])
def test_other_errors_are_not_retried(client: Client, fake: FakeService, code: int) -> None:
    with client.open_session() as session:
        fake.failures["Allocate"] = [refusal(code, "memory", 8)]
        with pytest.raises(AclrtError):
            session.allocate(8)
    assert fake.calls.count("Allocate") == 1


def test_no_device_ready_is_retried(client: Client, fake: FakeService) -> None:
    fake.failures["OpenSession"] = [refusal(207004, "profile", "ascend910b")]
    with client.open_session():
        assert fake.calls.count("OpenSession") == 2


def test_a_call_without_a_request_id_is_tried_once(client: Client, fake: FakeService) -> None:
    fake.failures["ListDevices"] = away(1)
    with pytest.raises(ServiceUnreachable):
        client.list_devices()
    assert fake.calls == ["ListDevices"]


def test_every_call_has_a_unique_request_id(client: Client, fake: FakeService) -> None:
    with client.open_session() as session:
        session.allocate(8)
        session.create_stream()
        session.create_event()
    given = [request_id for request_id in fake.request_ids if request_id]
    assert len(given) == 4
    assert len(set(given)) == 4


def test_a_closed_client_raises_and_its_transport_is_closed(fake: FakeService) -> None:
    transport = MemoryTransport(fake)
    client = Client(transport=transport)
    client.close()
    assert transport.closed
    with pytest.raises(ServiceUnreachable, match="the client is closed"):
        client.list_devices()
