"""Request ids, retries and deadlines."""

from contextlib import closing

import pytest

from client.fake_service import FakeService, refusal, throttling
from opserve.v1.stream_service_pb2 import WatchStreamRequest
from opserve_client import AclrtError, Client, QuotaExceeded, ServiceUnreachable
from opserve_client._sync.connection import ATTEMPTS
from opserve_client.recovery import RATE_WAITS_LIMIT_S
from opserve_client.transports import MemoryTransport
from opserve_client.wire.methods import WATCH_STREAM


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


def test_a_call_waits_for_the_call_rate_and_is_sent_again(
    client: Client, fake: FakeService, pauses: list[float]
) -> None:
    fake.failures["ListDevices"] = [throttling(0.25), throttling(1.0)]
    assert client.list_devices()
    assert fake.calls == ["ListDevices"] * 3
    assert pauses == [0.25, 1.0]


def test_every_kind_of_transfer_waits_for_the_call_rate(
    client: Client, fake: FakeService, pauses: list[float]
) -> None:
    def throttled(method: str) -> None:
        fake.failures[method] = [throttling(0.5)]
        pauses.clear()

    with client.open_session() as session:
        buffer = session.allocate(8)
        throttled("Write")
        buffer.write(b"12345678")
        assert pauses == [0.5]
        throttled("Read")
        assert bytes(buffer.read()) == b"12345678"
        assert pauses == [0.5]
        throttled("WatchStream")
        with closing(
            session._calls._connection.watch(WATCH_STREAM, WatchStreamRequest())
        ) as watching:
            next(watching)
        assert pauses == [0.5]
    throttled("GetInputs")
    fake.failures["GetInputs"].append(refusal(107017, "case", "none"))
    with pytest.raises(AclrtError, match="case"):
        client.conformance.get_inputs("any")
    assert pauses == [0.5]


@pytest.mark.parametrize(
    "error",
    [
        throttling(1.01),
        throttling(1.0, limit=0),
        throttling(float("nan")),
        throttling(0.1, resource="sessions"),
    ],
)
def test_other_rejections_by_a_quota_are_raised_at_once(
    client: Client, fake: FakeService, pauses: list[float], error: QuotaExceeded
) -> None:
    fake.failures["ListDevices"] = [error]
    with pytest.raises(QuotaExceeded):
        client.list_devices()
    assert (fake.calls, pauses) == (["ListDevices"], [])


def test_a_call_that_others_overtake_waits_longer_each_time_and_gives_up(
    client: Client, fake: FakeService, pauses: list[float]
) -> None:
    fake.failures["ListDevices"] = [throttling(0.0) for _ in range(100)]
    with pytest.raises(QuotaExceeded):
        client.list_devices()
    assert pauses == sorted(pauses)
    assert (pauses[:3], pauses[-1]) == ([0.001, 0.002, 0.004], 1.0)
    assert RATE_WAITS_LIMIT_S - 1 <= sum(pauses) < RATE_WAITS_LIMIT_S
    assert len(fake.calls) == len(pauses) + 1


def test_the_time_limit_of_a_call_includes_its_waits_for_the_call_rate(
    fake: FakeService, pauses: list[float]
) -> None:
    fake.failures["ListDevices"] = [throttling(0.75), throttling(0.75)]
    with (
        Client(transport=MemoryTransport(fake), sleep=pauses.append, timeout_s=1.0) as client,
        pytest.raises(QuotaExceeded),
    ):
        client.list_devices()
    assert pauses == [0.75]


def test_a_closed_client_waits_for_no_call_rate(fake: FakeService) -> None:
    fake.failures["ListDevices"] = [throttling(0.1), throttling(0.1)]
    client = Client(transport=MemoryTransport(fake), sleep=lambda _: client.close())
    with pytest.raises(QuotaExceeded):
        client.list_devices()
    assert fake.calls == ["ListDevices"] * 2
