"""Text forms of clients, devices, sessions and their objects: addresses, ids, states, no secret."""

import secrets

import pytest

from client.fake_service import FakeService, refusal
from opserve_client import AclrtError, AsyncClient, Client, Device, SessionLost
from opserve_client.transports import MemoryTransport

KEY = f"opserve_{secrets.token_hex(18)}"


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("127.0.0.1:50051", "grpc://127.0.0.1:50051"),
        ("grpcs://farm:50051", "grpcs://farm:50051"),
        ("https://farm:8080/api", "https://farm:8080"),
    ],
)
async def test_a_client_shows_its_address_and_state_but_no_key(address: str, shown: str) -> None:
    client = Client(address, api_key=KEY)
    assert repr(client) == f"<Client {shown}: open>"
    client.close()
    assert repr(client) == f"<Client {shown}: closed>"
    async with AsyncClient(address, api_key=KEY) as other:
        assert repr(other) == f"<AsyncClient {shown}: open>"


def test_a_session_and_its_objects_show_ids_and_the_state_but_no_whole_name(
    fake: FakeService,
) -> None:
    name = secrets.token_hex(16)
    fake.session = name
    with Client(transport=MemoryTransport(fake)) as client:
        assert repr(client) == "<Client MemoryTransport: open>"
        session = client.open_session()
        objects = (
            session,
            session.default_stream,
            session.create_stream(),
            session.create_event(),
            session.allocate(8),
        )
        there = f"{name[:8]}..."
        assert list(map(repr, objects)) == [
            f"<Session {there} on ascend910b-0 (ascend910b): open>",
            f"<Stream 0 of session {there}: open>",
            f"<Stream 1 of session {there}: open>",
            f"<Event 1 of session {there}: open>",
            f"<Buffer 1 of session {there}: 8 bytes, open>",
        ]
        fake.failures["Allocate"] = [refusal(107017, "session", "gone")]
        with pytest.raises(SessionLost):
            session.allocate(8)
        assert {shown.rpartition(" ")[2] for shown in map(repr, objects)} == {"lost>"}
        session.close()
        assert repr(session).endswith(": closed>")
    assert issubclass(SessionLost, AclrtError)


def test_a_device_shows_its_name_profile_state_and_memory() -> None:
    device = Device(
        name="ascend910b-0",
        profile="ascend910b",
        products="Atlas A2",
        operators=("aclnnIm2colBackward",),
        memory_bytes=256 * 2**20,
        free_memory_bytes=240 * 2**20,
        ready=True,
        sessions=2,
        tags=(),
        exclusive=False,
    )
    shown = "<Device ascend910b-0 (ascend910b): ready, sessions: 2, 240 of 256 MiB free>"
    assert repr(device) == shown


@pytest.mark.parametrize("kind", [Client, AsyncClient])
def test_a_client_whose_constructor_raised_has_a_text_for_tracebacks(
    kind: type[Client | AsyncClient],
) -> None:
    assert repr(object.__new__(kind)) == f"<{kind.__name__}: not open>"
