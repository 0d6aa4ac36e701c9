"""A service with keys, certificates and TLS, as its operators run it."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

import httpx2
import pytest
import trustme
from cryptography import x509
from pydantic import SecretStr

from opserve_client import (
    AsyncClient,
    AuthenticationError,
    Client,
    OpserveError,
    PermissionDeniedError,
    TlsFiles,
)
from opserve_server.app import running
from opserve_server.bootstrap import main as bootstrap
from opserve_server.core.audit import AuditEntry, AuditQuery
from opserve_server.core.directory import KeyRecord
from opserve_server.core.keys import new_key, sha256_of
from opserve_server.core.principal import Principal, Scope
from opserve_server.core.tenants import Tenant
from opserve_server.serving import Addresses
from opserve_server.settings import SettingRefused, Settings
from opserve_server.store.store import Store, open_store
from opserve_server.tls import tls_of

pytestmark = pytest.mark.system
OPERATE = frozenset({Scope.OPERATE})
LAB = Principal(tenant="lab", name="alice", scopes=OPERATE)
CI = Principal(tenant="mill", name="ci", scopes=OPERATE)
PROBE = Principal(tenant="lab", name="probe", scopes=frozenset({Scope.METRICS}))
NO_STORE = {"store_url": SecretStr(""), "no_keys": True}
AUDIT = AuditEntry(at=1.0, tenant="lab", principal="root", face="cli", method="test", outcome="OK")


@dataclass(frozen=True)
class Files:
    """Certificates of a deployment, made for one test."""

    server: TlsFiles
    known: TlsFiles
    unknown: TlsFiles
    nobody: TlsFiles

    @classmethod
    def made_in(cls, folder: Path) -> "Files":
        authority = trustme.CA()
        authority.cert_pem.write_to_path(folder / "ca.pem")

        def issued(name: str, *identities: str) -> TlsFiles:
            issue = authority.issue_cert(*identities, common_name=name)
            issue.private_key_pem.write_to_path(folder / f"{name}.key")
            for place, pem in enumerate(issue.cert_chain_pems):
                pem.write_to_path(folder / f"{name}.pem", append=place > 0)
            return TlsFiles(
                ca=folder / "ca.pem",
                certificate=folder / f"{name}.pem",
                key=folder / f"{name}.key",
            )

        return cls(
            server=issued("server", "127.0.0.1"),
            known=issued("known", "ci.farm"),
            unknown=issued("unknown", "someone.farm"),
            nobody=TlsFiles(ca=folder / "ca.pem"),
        )


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files.made_in(tmp_path)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    url = f"sqlite:///{tmp_path / 'opserve.db'}"
    async with open_store(url, timeout_s=5.0, connections_limit=2) as opened:
        for name in ("lab", "mill"):
            await opened.tenants.create(Tenant(name=name), audit=AUDIT)
        yield opened


def settings(folder: Path, files: Files | None = None, *, client_ca: bool = False) -> Settings:
    server = None if files is None else files.server
    return Settings(
        grpc_address="127.0.0.1:0",
        rest_address="127.0.0.1:0",
        store_url=SecretStr(f"sqlite:///{folder / 'opserve.db'}"),
        directory_refresh_s=0.05,
        devices=["ascend910b"],
        device_memory_bytes=2**24,
        slab_bytes=2**20,
        tls_certificate_file="" if server is None else f"{server.certificate}",
        tls_key_file="" if server is None else f"{server.key}",
        client_ca_file=f"{server.ca}" if server is not None and client_ca else "",
    )


async def made_key(store: Store, principal: Principal) -> tuple[str, str]:
    """Text and id of a new key."""
    text = new_key()
    digest = sha256_of(text)
    record = KeyRecord(
        id=digest.hex()[:8], sha256=digest, principal=principal, created_at=time.time()
    )
    await store.keys.add(record, audit=AUDIT)
    return text, record.id


async def until(ask: Callable[[], Awaitable[bool]]) -> None:
    """Asks again until it is so; the test's own limit ends it."""
    while not await ask():
        pass


async def outcome(address: str, key: str, tls: TlsFiles | None = None) -> str:
    """The name of a call's outcome."""
    async with AsyncClient(address, api_key=key, tls=tls, timeout_s=20.0) as client:
        try:
            return f"{len(await client.list_devices())} devices"
        except OpserveError as error:
            return type(error).__name__


async def every_outcome(addresses: Addresses, key: str, tls: TlsFiles | None = None) -> set[str]:
    return {await outcome(address, key, tls) for address in (addresses.grpc, addresses.rest)}


async def test_keys_work_over_tls_on_both_apis(tmp_path: Path, files: Files, store: Store) -> None:
    lab, _ = await made_key(store, LAB)
    probe, _ = await made_key(store, PROBE)
    async with running(settings(tmp_path, files)) as addresses:
        assert addresses.keys
        assert addresses.grpc.startswith("grpcs://")
        assert addresses.rest.startswith("https://")
        assert await every_outcome(addresses, lab, files.nobody) == {"1 devices"}
        assert await every_outcome(addresses, "", files.nobody) == {AuthenticationError.__name__}
        denied = {PermissionDeniedError.__name__}
        assert await every_outcome(addresses, probe, files.nobody) == denied
        plain = addresses.grpc.removeprefix("grpcs://")
        with pytest.raises(OpserveError):
            await asyncio.to_thread(Client(plain, api_key=lab, timeout_s=20.0).list_devices)
        with pytest.raises(OpserveError, match=r"(?i)certificate"):
            await asyncio.to_thread(Client(addresses.rest, api_key=lab).list_devices)
        async with (
            AsyncClient(addresses.grpc, api_key=lab, tls=files.nobody) as client,
            client.open_session() as session,
        ):
            buffer = await session.allocate(2**20)
            await buffer.write(b"\x07" * 2**20)
            assert (await buffer.read()) == b"\x07" * 2**20


async def test_a_certificate_identifies_the_caller_on_both_apis(
    tmp_path: Path, files: Files, store: Store
) -> None:
    await store.certificates.add("DNS:ci.farm", principal=CI, audit=AUDIT)
    lab, _ = await made_key(store, LAB)
    async with running(settings(tmp_path, files, client_ca=True)) as addresses:
        assert await every_outcome(addresses, "", files.known) == {"1 devices"}
        assert await every_outcome(addresses, "", files.unknown) == {"AuthenticationError"}
        assert await every_outcome(addresses, lab, files.unknown) == {"1 devices"}
        assert await every_outcome(addresses, lab, files.nobody) == {"ServiceUnreachable"}


async def test_subjects_are_written_alike_by_both_apis(
    tmp_path: Path, files: Files, store: Store
) -> None:
    pem = Path(f"{files.known.certificate}").read_bytes()
    subject = x509.load_pem_x509_certificate(pem).subject.rfc4514_string()
    assert subject.startswith("CN=known,OU=Testing cert #")
    await store.certificates.add(subject, principal=CI, audit=AUDIT)
    async with running(settings(tmp_path, files, client_ca=True)) as addresses:
        assert await every_outcome(addresses, "", files.known) == {"1 devices"}


async def test_a_running_service_learns_of_keys_and_of_their_end(
    tmp_path: Path, store: Store
) -> None:
    first, first_id = await made_key(store, LAB)
    async with running(settings(tmp_path)) as addresses:
        second, _ = await made_key(store, CI)

        async def second_opens() -> bool:
            return await outcome(addresses.grpc, second) == "1 devices"

        async def first_is_closed() -> bool:
            return await outcome(addresses.rest, first) == "AuthenticationError"

        await until(second_opens)
        await store.keys.revoke(first_id, audit=AUDIT)
        await until(first_is_closed)
    page = await store.audit.page(AuditQuery(outcome="unauthenticated"), limit=100)
    assert {entry.reason for entry in page.entries} == {f"key {first_id} is revoked"}
    keys = {key.id: key.last_used_at for key in await store.keys.of("mill")}
    assert all(keys.values()), "a last use is written when the service ends"


async def test_a_service_requires_keys_from_its_first_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPSERVE_STORE_URL")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    default = settings(tmp_path).model_dump(exclude={"store_url"}, exclude_defaults=True)
    async with running(Settings(**default)) as addresses:
        assert not addresses.keys
        assert await every_outcome(addresses, "") == {"1 devices"}
        assert await asyncio.to_thread(bootstrap, []) == 0

        async def is_closed() -> bool:
            return await every_outcome(addresses, "") == {"AuthenticationError"}

        await until(is_closed)


async def test_without_keys_a_page_of_the_web_gets_nothing(tmp_path: Path) -> None:
    async with (
        running(settings(tmp_path).model_copy(update=NO_STORE)) as addresses,
        httpx2.AsyncClient(base_url=addresses.rest) as client,
    ):
        evil = await client.get("/v1/devices", headers={"Host": "evil.example:8080"})
        own = await client.get("/v1/devices", headers={"Host": "localhost:8080"})
    assert evil.status_code == 403
    assert evil.json()["parameter"] == "Host"
    assert own.status_code == 200


@pytest.mark.parametrize("wrong", ["tls_certificate_file", "tls_key_file", "client_ca_file"])
@pytest.mark.parametrize("content", [None, b"", b"-----BEGIN CERTIFICATE-----\nx\n"])
def test_files_that_are_no_certificates_are_reported_in_one_line(
    tmp_path: Path, files: Files, wrong: str, content: bytes | None
) -> None:
    path = tmp_path / "wrong.pem"
    if content is not None:
        path.write_bytes(content)
    chosen = settings(tmp_path, files, client_ca=True).model_copy(update={wrong: f"{path}"})
    with pytest.raises(SettingRefused) as raised:
        tls_of(chosen)
    named = "tls_certificate_file" if wrong == "tls_key_file" and content is not None else wrong
    assert str(raised.value).startswith(f"{named} does not accept ")
    assert "\n" not in str(raised.value)
