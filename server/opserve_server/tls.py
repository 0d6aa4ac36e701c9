"""TLS of both APIs, from the administrator's files, which may change while the service runs."""

import asyncio
import logging
import os
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import grpc

from opserve_kernels.errors import rejection
from opserve_server.settings import SettingRefused, Settings, where_set

LOOKS_S = 5.0
"""Seconds between two checks of the files; certificates are renewed days before they expire."""

_OTHER_KEY = "KEY_VALUES_MISMATCH"
"""OpenSSL's reason for a key that is not that of the certificate."""

log = logging.getLogger(__name__)
_Stamp = tuple[int, ...]
"""Time of modification, inode and size of a file; empty for a file that is not there."""


@dataclass(frozen=True, slots=True)
class _Held:
    """Contents of the files, in the form of each API."""

    context: ssl.SSLContext
    configuration: grpc.ServerCertificateConfiguration


class Tls:
    """TLS configuration of both APIs: the latest contents of the files that matched each other.

    Open connections stay as they began.

    Args:
        settings: Paths of the files.

    Attributes:
        context: Configuration for REST.
        credentials: Configuration for gRPC.

    Raises:
        SettingRefused: A file cannot be read, or is invalid.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._seen: list[_Stamp] = _stamps(settings)
        self._held = _read(settings)
        self._formatted = self._held
        self.context = self._held.context
        # Each connection is passed to the newest context, whose authorities then apply: authorities
        # can be added to a context in use, and never removed.
        self.context.sni_callback = self._hand_on
        self.credentials = grpc.dynamic_ssl_server_credentials(
            self._held.configuration,
            # Its stub lacks the None that means unchanged.
            cast("Callable[[], grpc.ServerCertificateConfiguration]", self._untold),
            require_client_authentication=bool(settings.client_ca_file),
        )

    async def keep_looking(self) -> None:
        """Loads changed files until it is cancelled."""
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
        if stamps == _stamps(
            self._settings
        ):  # else they are changing right now; the next check follows soon
            self._seen, self._held = stamps, held
            log.info("TLS uses the new certificates")

    def _hand_on(self, connection: ssl.SSLObject | ssl.SSLSocket, *_: object) -> None:
        connection.context = self._held.context

    def _untold(self) -> grpc.ServerCertificateConfiguration | None:
        """The new configuration, if any; gRPC calls it before each handshake, in its own thread."""
        held = self._held
        if held is self._formatted:
            return None
        self._formatted = held
        return held.configuration


def tls_of(settings: Settings) -> Tls | None:
    """The TLS configuration of the settings; None for plain text.

    With client_ca_file every client must present a certificate of that authority, on both APIs.

    Raises:
        SettingRefused: A file cannot be read, or is invalid.
    """
    return Tls(settings) if settings.tls_certificate_file else None


def _read(settings: Settings) -> _Held:
    certificate = _content("tls_certificate_file", settings.tls_certificate_file)
    key = _content("tls_key_file", settings.tls_key_file)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    files = (settings.tls_certificate_file, settings.tls_key_file)
    try:
        # Without a password of ours, OpenSSL would prompt the terminal for that of a locked key.
        context.load_cert_chain(*files, password="")
    except OSError as error:  # ssl.SSLError is one, and a file may have been deleted since
        if isinstance(error, ssl.SSLError) and error.reason == _OTHER_KEY:
            raise SettingRefused(
                f"The key {files[1]} (tls_key_file) does not belong to the certificate {files[0]} "
                "(tls_certificate_file): set the two that were made together, by "
                f"{where_set('tls_key_file')} and {where_set('tls_certificate_file')}."
            ) from error
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


def _stamps(settings: Settings) -> list[_Stamp]:
    """Stamps of the files, which differ after a change."""
    files = (settings.tls_certificate_file, settings.tls_key_file, settings.client_ca_file)
    return [_stamp(Path(file)) for file in files if file]


def _stamp(file: Path) -> _Stamp:
    try:
        found = file.stat()
    except OSError:
        return ()
    return found.st_mtime_ns, found.st_ino, found.st_size


def _content(setting: str, path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
        raise _refused(setting, path, f"a file that can be read ({reason})") from error


def _refused(setting: str, given: str, wanted: str) -> SettingRefused:
    return SettingRefused(
        f"{rejection(setting, given=given, allowed=wanted)} Set it by {where_set(setting)}."
    )
