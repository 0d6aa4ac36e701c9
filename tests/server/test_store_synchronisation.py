"""When callers need a key: a lost store never opens a service."""

import logging
import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from pydantic import SecretStr

from opserve_server.bootstrap import first_key
from opserve_server.core.audit import RefusedCalls
from opserve_server.core.errors import Unauthenticated
from opserve_server.core.principal import LOCAL, Scope
from opserve_server.guard import Credentials, Guard
from opserve_server.identity import Identity
from opserve_server.serving import StartFailed
from opserve_server.settings import SettingRefused, Settings
from opserve_server.store.store import open_store
from opserve_server.store_synchronisation import (
    key_policy,
    store_synchronisation,
    unknown_key_limits,
)
from server.core.fakes import FakeDevice, make_service
from server.guards import CALLS, admitted
from server.store.samples import ACME, entry


class Start:
    """Starts of a service, without its devices and APIs."""

    def __init__(self) -> None:
        self._stack = AsyncExitStack()

    async def of(self, settings: Settings) -> tuple[Guard, Identity | None]:
        device = FakeDevice()
        self._stack.callback(device.slabs.close)
        service = make_service(device)
        self._stack.push_async_callback(service.stop)
        unknown_keys, keys = unknown_key_limits(settings), key_policy(settings)
        guard = Guard(service.accounts, unknown_keys=unknown_keys, calls=CALLS, keys=keys)
        refused = RefusedCalls(limit=1, clock=lambda: 1.0)
        known = store_synchronisation(guard, service, refused, settings)
        return guard, await self._stack.enter_async_context(known)

    async def end(self) -> None:
        await self._stack.aclose()


@pytest.fixture
async def start() -> AsyncIterator[Start]:
    start = Start()
    yield start
    await start.end()


@pytest.fixture
def default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The path of the default store, which does not exist."""
    monkeypatch.delenv("OPSERVE_STORE_URL")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path / "opserve" / "opserve.db"


def settings(**chosen: object) -> Settings:
    """Settings whose store is refreshed by the test alone."""
    return Settings.model_validate({"directory_refresh_s": 3600.0, **chosen})


async def key_made(url: str) -> str:
    """Text of an administrator's key, made in a new store."""
    async with open_store(url, timeout_s=20.0, connections_limit=1) as store:
        return await first_key(store, "admin", force=True, now=1.0)


def shown(key: str | None) -> Credentials:
    return Credentials(authorization=key and f"Bearer {key}", peer=lambda: "192.0.2.1")


async def refused_start(start: Start, chosen: Settings) -> str:
    with pytest.raises((SettingRefused, StartFailed)) as raised:
        await start.of(chosen)
    assert "\n" not in str(raised.value)
    return str(raised.value)


async def test_a_configured_store_without_tables_is_a_start_error(start: Start, url: str) -> None:
    message = await refused_start(start, settings(store_url=SecretStr(url)))
    assert message.startswith("store_url ")
    assert "opserve bootstrap" in message
    assert message.endswith("Set it by OPSERVE_STORE_URL.")


async def test_a_configured_store_without_a_key_is_a_start_error(start: Start, url: str) -> None:
    async with open_store(url, timeout_s=20.0, connections_limit=1) as store:
        await store.tenants.create(ACME, audit=entry())
    message = await refused_start(start, settings(store_url=SecretStr(url)))
    assert "has no key: make the first one with `opserve bootstrap`" in message


async def test_a_configured_store_whose_file_is_lost_is_a_start_error_and_not_made_anew(
    start: Start, tmp_path: Path
) -> None:
    file = tmp_path / "opserve.db"
    message = await refused_start(start, settings(store_url=SecretStr(f"sqlite:///{file}")))
    assert f"{file} is missing: " in message
    assert "opserve bootstrap" in message
    assert not file.exists()


async def test_a_relative_path_of_a_lost_store_is_shown_as_an_absolute_one(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    message = await refused_start(start, settings(store_url=SecretStr("sqlite:///opserve.db")))
    expected = f"store_url sqlite:///{tmp_path}/opserve.db is missing (the relative path of the "
    assert message.startswith(f"{expected}setting depends on the working directory): restore it")


@pytest.mark.parametrize("configured", [True, False])
async def test_an_empty_file_is_a_start_error_wherever_it_is(
    start: Start, default: Path, *, configured: bool
) -> None:
    default.parent.mkdir()
    default.touch()
    chosen = {"store_url": SecretStr(f"sqlite:///{default}")} if configured else {}
    message = await refused_start(start, settings(**chosen))
    assert "is empty: " in message
    assert "opserve bootstrap" in message


async def test_a_service_whose_store_was_never_configured_requires_no_key(
    start: Start, default: Path
) -> None:
    for _ in range(2):  # the first start makes the file, and the second one finds it
        guard, _ = await start.of(settings())
        assert await admitted(guard, shown(None), Scope.OPERATE) is LOCAL
        assert default.exists()


@pytest.mark.parametrize("lost", ["removed", "emptied", "another"])
async def test_a_default_store_that_had_a_key_and_is_lost_is_a_start_error(
    start: Start, default: Path, lost: str
) -> None:
    await key_made(f"sqlite:///{default}")
    guard, _ = await start.of(settings())
    assert not guard.keyless
    await start.end()
    if lost == "emptied":
        os.truncate(default, 0)
    else:
        default.unlink()
    if lost == "another":
        async with open_store(f"sqlite:///{default}", timeout_s=5.0, connections_limit=1):
            """Tables, and no key."""
    assert "opserve bootstrap" in await refused_start(start, settings())


async def test_without_keys_by_choice_no_key_is_required_on_loopback_alone(
    start: Start, url: str
) -> None:
    await key_made(url)
    chosen = {"store_url": SecretStr(url), "no_keys": True}
    guard, identity = await start.of(settings(**chosen))
    assert identity is not None
    await identity.refresh()
    assert await admitted(guard, shown(None), Scope.OPERATE) is LOCAL
    reached = {"allow_plaintext": True, "rest_address": "0.0.0.0:0"}
    message = await refused_start(start, settings(**chosen, **reached))
    assert message.startswith("rest_address is 0.0.0.0:0, which other machines can reach, ")


async def test_without_any_store_no_key_is_required_on_loopback_alone(start: Start) -> None:
    chosen = {"store_url": SecretStr(""), "no_keys": True}
    guard, identity = await start.of(settings(**chosen))
    assert identity is None
    assert guard.keyless
    reached = {"allow_plaintext": True, "grpc_address": "0.0.0.0:0"}
    message = await refused_start(start, settings(**chosen, **reached))
    assert "opserve bootstrap" in message


@pytest.mark.parametrize("had_keys", [True, False])
async def test_an_empty_store_url_is_a_start_error_unless_no_keys_are_wanted(
    start: Start, default: Path, *, had_keys: bool
) -> None:
    if had_keys:
        await key_made(f"sqlite:///{default}")
    message = await refused_start(start, settings(store_url=SecretStr("")))
    assert message.startswith("store_url is missing: make a store with `opserve bootstrap`")
    assert message.endswith("Set it by OPSERVE_STORE_URL.")


@pytest.mark.parametrize("lost", ["missing", "empty", "lost by default"])
async def test_a_configured_store_is_not_made_anew_without_keys_either(
    start: Start, default: Path, lost: str
) -> None:
    chosen = {"store_url": SecretStr(f"sqlite:///{default}")}
    default.parent.mkdir()
    if lost == "empty":
        default.touch()
    if lost == "lost by default":
        await key_made(f"sqlite:///{default}")
        default.unlink()
        chosen = {}
    message = await refused_start(start, settings(**chosen, no_keys=True))
    assert "opserve bootstrap" in message
    assert default.exists() == (lost == "empty")


async def test_without_keys_a_default_store_that_was_never_made_is_made(
    start: Start, default: Path
) -> None:
    guard, _ = await start.of(settings(no_keys=True))
    assert guard.keyless
    assert default.exists()


@pytest.mark.parametrize("lost", ["removed", "emptied", "another"])
async def test_a_store_that_vanishes_is_noticed_and_known_keys_stay_valid(
    start: Start, tmp_path: Path, lost: str, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "opserve.db"
    url = f"sqlite:///{file}"
    key = await key_made(url)
    guard, identity = await start.of(settings(store_url=SecretStr(url)))
    assert identity is not None
    if lost == "emptied":
        os.truncate(file, 0)
    else:
        file.rename(tmp_path / "moved.db")
    if lost == "another":
        await key_made(url)
    with caplog.at_level(logging.WARNING):
        await identity.poll()
    assert "the store does not answer" in caplog.text
    assert identity.failures() == 1
    assert (await admitted(guard, shown(key), Scope.OPERATE)).tenant == "admin"
    with pytest.raises(Unauthenticated):
        await admitted(guard, shown(None), Scope.OPERATE)
    assert file.exists() == (lost != "removed"), "no empty file takes its place"


async def test_a_keyless_service_whose_store_is_lost_requires_keys_once_there_are_some(
    start: Start, default: Path
) -> None:
    guard, identity = await start.of(settings())
    assert identity is not None
    default.unlink()
    await identity.poll()
    assert guard.keyless, "nobody ever had a key"
    await key_made(f"sqlite:///{default}")
    await identity.poll()
    with pytest.raises(Unauthenticated):
        await admitted(guard, shown(None), Scope.OPERATE)
