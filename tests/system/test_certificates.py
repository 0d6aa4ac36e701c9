"""Certificates that are changed while the service runs."""

import asyncio
import logging
import shutil
from pathlib import Path

import pytest

from opserve_client import AsyncClient, TlsFiles
from opserve_server import tls
from opserve_server.app import running
from opserve_server.store.store import Store
from system.test_identity import LAB, Files, every_outcome, made_key, settings, store, until

pytestmark = pytest.mark.system
__all__ = ["store"]


def files_in(folder: Path) -> Files:
    folder.mkdir()
    return Files.made_in(folder)


def copy(source: object, target: object) -> None:
    """Replaces a file atomically, as tools that renew certificates do."""
    new = Path(f"{target}.new")
    shutil.copy(f"{source}", new)
    new.rename(f"{target}")


def copied(source: TlsFiles, folder: Path) -> TlsFiles:
    made = TlsFiles(ca=folder / "ca", certificate=folder / "certificate", key=folder / "key")
    for name in ("ca", "certificate", "key"):
        copy(getattr(source, name), getattr(made, name))
    return made


async def test_new_certificates_and_authorities_are_taken_and_what_does_not_fit_is_not(
    tmp_path: Path,
    store: Store,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(tls, "LOOKS_S", 0.02)
    old, new = files_in(tmp_path / "old"), files_in(tmp_path / "new")
    shown = copied(old.server, tmp_path)
    lab, _ = await made_key(store, LAB)
    chosen = settings(tmp_path, Files(shown, old.known, old.unknown, old.nobody), client_ca=True)
    caplog.set_level(logging.INFO, logger="opserve_server.tls")

    async def warned() -> bool:
        await asyncio.sleep(0)
        return "TLS stays as it was: The key " in caplog.text

    async def taken() -> bool:
        return await every_outcome(addresses, lab, new.known) == {"1 devices"}

    async with (
        running(chosen) as addresses,
        AsyncClient(addresses.grpc, api_key=lab, tls=old.known) as before,
    ):
        assert len(await before.list_devices()) == 1
        copy(new.server.certificate, shown.certificate)
        await until(warned)
        assert await every_outcome(addresses, lab, old.known) == {"1 devices"}
        assert await every_outcome(addresses, lab, new.known) == {"ServiceUnreachable"}
        copy(new.server.key, shown.key)
        copy(new.server.ca, shown.ca)
        await until(taken)
        assert await every_outcome(addresses, lab, old.known) == {"ServiceUnreachable"}
        assert len(await before.list_devices()) == 1, "an open connection stays"


def what_was_there(_: Path) -> bytes:
    return b"what was there"


@pytest.mark.parametrize("name", ["key", "ca"])
async def test_a_file_that_vanishes_between_two_reads_ends_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(tls, "LOOKS_S", 0.0)
    files = files_in(tmp_path / "files")
    loaded = tls.tls_of(settings(tmp_path, files, client_ca=True))
    assert loaded is not None
    monkeypatch.setattr(Path, "read_bytes", what_was_there)
    Path(f"{getattr(files.server, name)}").unlink()
    warned = asyncio.Event()

    def tell(*_: object) -> None:
        warned.set()

    monkeypatch.setattr(tls.log, "warning", tell)
    looking, telling = (asyncio.create_task(one) for one in (loaded.keep_looking(), warned.wait()))
    done, _ = await asyncio.wait([looking, telling], return_when=asyncio.FIRST_COMPLETED)
    looking.cancel()
    telling.cancel()
    assert looking not in done
