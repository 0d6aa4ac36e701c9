"""TLS at both doors, from the operator's files."""

import os
import ssl
from dataclasses import dataclass, field
from pathlib import Path

import grpc

from opserve_server.settings import SettingRefused, Settings, where_set


@dataclass(frozen=True, slots=True, kw_only=True)
class Tls:
    """What both doors show and ask for.

    Attributes:
        context: For REST.
        credentials: For gRPC.
    """

    context: ssl.SSLContext = field(repr=False)
    credentials: grpc.ServerCredentials = field(repr=False)


def tls_of(settings: Settings) -> Tls | None:
    """What the settings say; None where the service speaks plain text.

    With client_ca_file every client must show a certificate of that authority, on both doors alike.

    Raises:
        SettingRefused: A file cannot be read, or is not what it should be.
    """
    if not settings.tls_certificate_file:
        return None
    certificate = _content("tls_certificate_file", settings.tls_certificate_file)
    key = _content("tls_key_file", settings.tls_key_file)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    files = (settings.tls_certificate_file, settings.tls_key_file)
    try:
        # Without a password of ours, OpenSSL would ask the terminal for that of a locked key.
        context.load_cert_chain(*files, password="")
    except ssl.SSLError as error:
        wanted = "a certificate chain, and its own key without a password, in PEM"
        raise _refused("tls_certificate_file", files[0], wanted) from error
    authority = None
    if settings.client_ca_file:
        authority = _content("client_ca_file", settings.client_ca_file)
        try:
            context.load_verify_locations(settings.client_ca_file)
        except ssl.SSLError as error:
            wanted = "certificates of authorities, in PEM"
            raise _refused("client_ca_file", settings.client_ca_file, wanted) from error
        context.verify_mode = ssl.CERT_REQUIRED
    credentials = grpc.ssl_server_credentials(
        [(key, certificate)], authority, require_client_auth=authority is not None
    )
    return Tls(context=context, credentials=credentials)


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
