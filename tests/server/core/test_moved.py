"""Services of a farm without a store: which of them a request or a session belongs to."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace

import pytest

from opserve_server.core.errors import (
    HandleNotFound,
    InvalidArgument,
    LimitExceeded,
    Moved,
    Unavailable,
)
from opserve_server.core.farm import DeviceRecord, ServiceRecord, service_id
from opserve_server.core.info import WaitingInfo
from opserve_server.core.principal import LOCAL
from opserve_server.core.service import Service
from opserve_server.core.session_request import SessionRequest
from server.core.fakes import LIMITS, FakeDevice

FULL = replace(LIMITS, device_sessions_limit=1)


@dataclass
class Listed:
    """A farm as a test lists it."""

    name: str
    own: ServiceRecord | None = None
    others: Sequence[ServiceRecord] = ()
    accepts: bool = True
    ahead_s: float = 0.0


def record(
    name: str, *, profile: str = "ascend910b", room: int = 0, exclusive_room: bool = False
) -> ServiceRecord:
    """A service with one device, which has the tag lab."""
    device = Service([FakeDevice(tags=frozenset({"lab"}))], limits=LIMITS).list_devices(LOCAL)[0]
    return ServiceRecord(
        name=name,
        grpc_address=f"grpc://{name}:1",
        http_address=f"http://{name}:2",
        version="1.2.3",
        contract="0123",
        drains=False,
        devices=(
            DeviceRecord(
                info=replace(device, profile=profile), room=room, exclusive_room=exclusive_room
            ),
        ),
    )


@pytest.fixture
def farm() -> Listed:
    return Listed("a", own=record("a"))


@pytest.fixture
async def service(farm: Listed) -> AsyncIterator[Service]:
    device = FakeDevice()
    made = Service([device], limits=FULL, farm=farm)
    yield made
    await made.stop()
    device.slabs.close()


async def moved_to(service: Service, request: SessionRequest) -> str:
    """The service that a request is sent to; here where it opens a session."""
    try:
        await service.open_session(LOCAL, request)
    except Moved as moved:
        return moved.service.name
    return "here"


async def test_a_full_service_sends_a_request_to_the_one_with_the_most_room(
    service: Service, farm: Listed
) -> None:
    farm.others = [record("b", room=1), record("c", room=3), record("d")]
    assert await moved_to(service, SessionRequest()) == "here"
    assert await moved_to(service, SessionRequest()) == "c"


async def test_where_no_service_has_room_a_request_stays(service: Service, farm: Listed) -> None:
    farm.others = [record("b")]
    await service.open_session(LOCAL)
    with pytest.raises(LimitExceeded, match="The session must wait for") as refusal:
        await service.open_session(LOCAL)
    assert refusal.value.status == 207005


async def test_room_is_that_of_the_requested_kind(service: Service, farm: Listed) -> None:
    await service.open_session(LOCAL)
    farm.others = [record("b", room=3), record("c", profile="reference", room=4)]
    assert await moved_to(service, SessionRequest(tags=("lab",))) == "b"
    assert await moved_to(service, SessionRequest()) == "b"
    with pytest.raises(LimitExceeded):
        await service.open_session(LOCAL, SessionRequest(exclusive=True))
    farm.others = [record("b", room=3), record("c", exclusive_room=True)]
    assert await moved_to(service, SessionRequest(exclusive=True)) == "c"


async def test_a_device_that_only_another_service_has_is_requested_there_even_without_room(
    service: Service, farm: Listed
) -> None:
    farm.others = [replace(record("b", room=9), drains=True), record("c")]
    assert await moved_to(service, SessionRequest(tags=("lab",))) == "c"
    with pytest.raises(InvalidArgument):
        await service.open_session(LOCAL, SessionRequest(tags=("attic",)))


async def test_a_service_that_drains_or_lost_the_store_sends_requests_on(
    service: Service, farm: Listed
) -> None:
    farm.others, farm.accepts = [record("b", room=1)], False
    assert await moved_to(service, SessionRequest()) == "b"
    farm.accepts = True
    await service.drain()
    assert await moved_to(service, SessionRequest()) == "b"
    farm.others = []
    with pytest.raises(Unavailable):
        await service.open_session(LOCAL)


async def test_a_request_that_says_so_is_answered_here(service: Service, farm: Listed) -> None:
    farm.others = [record("b", room=4)]
    await service.open_session(LOCAL)
    with pytest.raises(LimitExceeded):
        await service.open_session(LOCAL, SessionRequest(here=True))
    with pytest.raises(InvalidArgument):
        await service.open_session(LOCAL, SessionRequest(tags=("lab",), here=True))


async def test_a_move_is_no_answer_that_a_repeated_request_gets(
    service: Service, farm: Listed
) -> None:
    farm.others = [record("b", room=4)]
    opened = await service.open_session(LOCAL)
    with pytest.raises(Moved):
        await service.open_session(LOCAL, request_id="one")
    await service.close_session(LOCAL, opened.session)
    again = await service.open_session(LOCAL, SessionRequest(here=True), request_id="one")
    assert [one.name for one in again.services] == ["a", "b"]


async def test_a_request_that_waits_stays_where_it_waits(service: Service, farm: Listed) -> None:
    await service.open_session(LOCAL)
    request = SessionRequest(wait_s=60)
    for _ in range(2):
        told = await service.request_session(LOCAL, request, request_id="one", tell_after_s=0.001)
        assert isinstance(told, WaitingInfo)
        farm.others = [record("b", room=4)]


async def test_the_name_of_a_session_says_its_service(service: Service, farm: Listed) -> None:
    opened = await service.open_session(LOCAL)
    assert len(opened.session) == 32
    farm.others = [record("b"), record("c")]
    strange = opened.session[:24] + service_id("c")
    with pytest.raises(Moved, match="Service c of this farm has the session") as moved:
        service.get_session(LOCAL, strange)
    assert moved.value.status == 207005
    assert moved.value.service == farm.others[1].address
    farm.others = [record("b")]  # c is lost, and its sessions are
    with pytest.raises(HandleNotFound):
        service.get_session(LOCAL, strange)


async def test_outside_a_farm_names_are_random_and_no_service_is_listed() -> None:
    device = FakeDevice()
    service = Service([device], limits=FULL, new_session_name=lambda: "5e" * 16)
    opened = await service.open_session(LOCAL)
    assert (opened.session, opened.services) == ("5e" * 16, ())
    with pytest.raises(LimitExceeded):
        await service.open_session(LOCAL)
    await service.stop()
    device.slabs.close()
