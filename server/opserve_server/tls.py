"""TLS at both doors, from the operator's files, which may change while the service runs."""

import asyncio
import logging
import os
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import grpc

from opserve_server.settings import SettingRefused, Settings, where_set

LOOKS_S = 5.0
"""Seconds between two looks at the files; who renews a certificate does so days before it ends."""

log = logging.getLogger(__name__)
_Stamp = tuple[int, int, int]
"""When a file was written, which it is, and its size."""


@dataclass(frozen=True, slots=True)
class _Held:
    """What the files hold, as each door takes it."""

    context: ssl.SSLContext
    configuration: grpc.ServerCertificateConfiguration


class Tls:
    """What both doors show and ask for: what the files held when they last fitted together.

    Connections that are open stay as they began.

    Args:
        settings: Say where the files are.

    Attributes:
        context: For REST.
        credentials: For gRPC.

    Raises:
        SettingRefused: A file cannot be read, or is not what it should be.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._seen: list[_Stamp | None] = _stamps(settings)
        self._held = _read(settings)
        self._formatted = self._held
        self.context = self._held.context
        # Each connection is handed on to the newest context, whose authorities are then asked too:
        # those of a context that is in use can be added to, and never taken away.
        self.context.sni_callback = self._hand_on
        self.credentials = grpc.dynamic_ssl_server_credentials(
            self._held.configuration,
            # Its stub lacks the None that says that nothing has changed.
            cast("Callable[[], grpc.ServerCertificateConfiguration]", self._untold),
            require_client_authentication=bool(settings.client_ca_file),
        )

    async def keep_looking(self) -> None:
        """Takes what is new in the files until it is cancelled."""
        while True:
            await asyncio.sleep(LOOKS_S)
            self._look()

    def _look(self) -> None:
        stamps = _stamps(self._settings)
        if stamps == self._seen:
            return
        try:
            held = _read(self._settings)
        except SettingRefused as refused:
            self._seen = stamps
            log.warning("TLS stays as it was: %s", refused)
            return
        if stamps == _stamps(self._settings):  # else they change right now: the next look is soon
            self._seen, self._held = stamps, held
            log.info("TLS has the new certificates")

    def _hand_on(self, connection: ssl.SSLObject | ssl.SSLSocket, *_: object) -> None:
        connection.context = self._held.context

    def _untold(self) -> grpc.ServerCertificateConfiguration | None:
        """Asked by gRPC before each handshake, in a thread of its own."""
        held = self._held
        if held is self._formatted:
            return None
        self._formatted = held
        return held.configuration


def tls_of(settings: Settings) -> Tls | None:
    """What the settings say; None where the service speaks plain text.

    With client_ca_file every client must show a certificate of that authority, on both doors alike.

    Raises:
        SettingRefused: A file cannot be read, or is not what it should be.
    """
    return Tls(settings) if settings.tls_certificate_file else None


def _read(settings: Settings) -> _Held:
    certificate = _content("tls_certificate_file", settings.tls_certificate_file)
    key = _content("tls_key_file", settings.tls_key_file)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    files = (settings.tls_certificate_file, settings.tls_key_file)
    try:
        # Without a password of ours, OpenSSL would ask the terminal for that of a locked key.
        context.load_cert_chain(*files, password="")
    except OSError as error:  # ssl.SSLError is one, and a file may be gone since it was read
        wanted = "a certificate chain, and its own key without a password, in PEM"
        raise _refused("tls_certificate_file", files[0], wanted) from error
    authority = None
    if settings.client_ca_file:
        authority = _content("client_ca_file", settings.client_ca_file)
        try:
            context.load_verify_locations(settings.client_ca_file)
        except OSError as error:
            wanted = "certificates of authorities, in PEM"
            raise _refused("client_ca_file", settings.client_ca_file, wanted) from error
        context.verify_mode = ssl.CERT_REQUIRED
    chains = [(key, certificate)]
    return _Held(context, grpc.ssl_server_certificate_configuration(chains, authority))


def _stamps(settings: Settings) -> list[_Stamp | None]:
    """What differs when a file has changed."""
    files = (settings.tls_certificate_file, settings.tls_key_file, settings.client_ca_file)
    return [_stamp(Path(file)) for file in files if file]


def _stamp(file: Path) -> _Stamp | None:
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ino, found.st_size


def _content(setting: str, path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
        raise _refused(setting, path, f"a file that can be read ({reason})") from error


def _refused(setting: str, given: str, wanted: str) -> SettingRefused:
    return SettingRefused(
        f"{setting}: given {given}, allowed {wanted}; set by {where_set(setting)}"
    )
