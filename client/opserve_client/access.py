"""Access to a service: address, API key and certificates."""

import ipaddress
import os
import re
from dataclasses import dataclass, field, replace
from pathlib import Path

from opserve_client.errors import invalid_parameter
from opserve_client.wire.connection_failures import has_port, with_default_port
from opserve_kernels.user_input import is_like_a_key, similar_name

ADDRESS_VARIABLE = "OPSERVE_ADDRESS"
CA_VARIABLE = "OPSERVE_CA"
KEY_VARIABLE = "OPSERVE_API_KEY"
PLAINTEXT_VARIABLE = "OPSERVE_ALLOW_PLAINTEXT"
VARIABLES = (ADDRESS_VARIABLE, CA_VARIABLE, KEY_VARIABLE, PLAINTEXT_VARIABLE)
"""Environment variables that the client reads for a connection."""
DEFAULT_ADDRESS = "127.0.0.1:50051"
_TRUE, _FALSE = ("1", "on", "true", "yes"), ("", "0", "false", "no", "off")
_PREFIX = "OPSERVE_"
_TYPO = 0.9
"""Least similarity of a variable to one of the client that makes it a misspelt one."""
_CREDENTIAL = re.compile(r"[A-Za-z0-9_.-]+")
_DOTS_OF_A_TOKEN = 2
_SCHEMES = {"grpc": False, "grpcs": True, "http": False, "https": True}


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsFiles:
    """Certificates for TLS, in PEM files.

    Attributes:
        ca: Certificate authorities that may sign the service's certificate; None means those of
            the environment variable OPSERVE_CA, by default those of the system.
        certificate: Certificate chain of this client; None means none.
        key: Private key of that certificate.
    """

    ca: str | os.PathLike[str] | None = None
    certificate: str | os.PathLike[str] | None = None
    key: str | os.PathLike[str] | None = None


@dataclass(frozen=True)
class Access:
    """Address and credentials of a service.

    Attributes:
        is_http: Whether the protocol is Connect over HTTP; False means gRPC.
        target: "host:port" for gRPC, the base URL for HTTP.
        secure: Whether to use TLS.
        headers: Headers with the API key; a secret.
        tls: Certificates.
    """

    is_http: bool
    target: str
    secure: bool
    headers: dict[str, str] = field(repr=False)
    tls: TlsFiles

    @property
    def place(self) -> str:
        """The URL without a path, for people."""
        scheme = ("http" if self.is_http else "grpc") + ("s" if self.secure else "")
        return f"{scheme}://{self.target.rpartition('://')[2].partition('/')[0]}"


def default_address() -> str:
    """Returns the address in the environment variable OPSERVE_ADDRESS, or DEFAULT_ADDRESS."""
    return os.environ.get(ADDRESS_VARIABLE) or DEFAULT_ADDRESS


def access_to(
    address: str, *, api_key: str | None, tls: TlsFiles | None, allow_plaintext: bool | None
) -> Access:
    """Returns the access to an address.

    Args:
        address: "host:port", or a URL with grpc, grpcs, http or https.
        api_key: API key, or ID token of a CI system; None means the environment
            variable OPSERVE_API_KEY, if it is set.
        tls: Certificates; with them, an address without a scheme means grpcs, which OPSERVE_CA
            alone does not do.
        allow_plaintext: Whether to send a key to another machine without TLS; None means the
            environment variable OPSERVE_ALLOW_PLAINTEXT, by default no.

    Raises:
        AclrtError: 107000, the address has an unknown scheme, a gRPC address has no port, the key
            is malformed, or it would be sent without TLS, a file of TLS cannot be used, or an
            environment variable is misspelt.
    """
    _check_variables()
    scheme, separator, rest = address.partition("://")
    if not separator:
        scheme, rest = ("grpc" if tls is None else "grpcs"), address
    secure = _SCHEMES.get(scheme)
    if secure is None or (tls is not None and not secure):
        allowed = "HOST:PORT, grpcs:// or https://" if tls else ", ".join(_SCHEMES)
        raise invalid_parameter("address", address, allowed)
    is_http = scheme.startswith("http")
    if not (is_http or has_port(rest)):
        allowed = f"a host and a port, such as {with_default_port(rest)}"
        raise invalid_parameter("address", address, allowed)
    key = os.environ.get(KEY_VARIABLE, "") if api_key is None else api_key
    headers = {"authorization": f"Bearer {_printable(key)}"} if key else {}
    if headers and not (secure or _is_loopback(rest) or _is_plaintext_allowed(allow_plaintext)):
        allowed = (
            "grpcs:// or https:// for a key; in a network that you trust, --allow-plaintext, "
            f"allow_plaintext=True or {PLAINTEXT_VARIABLE}=true"
        )
        raise invalid_parameter("address", address, allowed)
    files = tls or TlsFiles()
    if secure and files.ca is None:
        files = replace(files, ca=os.environ.get(CA_VARIABLE) or None)
    if files != TlsFiles():
        _check_files(files)
    return Access(is_http, address if is_http else rest, secure, headers, files)


def access_like(own: Access, other: Access) -> Access:
    """Returns the access to another service of a farm, which must be as secure as one's own.

    Raises:
        AclrtError: 107000, it has no TLS, and the client's own address has.
    """
    if own.secure and not other.secure:
        message = (
            f"The farm sent this call on to {other.place}, which has no TLS, and {own.place} has: "
            "give every service of the farm TLS."
        )
        raise invalid_parameter("address", other.place, "an address with TLS", message=message)
    return other


def _check_variables() -> None:
    """Rejects a misspelt variable, which would be ignored."""
    unset = [variable for variable in VARIABLES if variable not in os.environ]
    for name in os.environ.keys() - set(VARIABLES):
        is_ours = name.upper().startswith(_PREFIX)
        if is_ours and (meant := similar_name(name.upper(), unset, least=_TYPO)):
            message = f"{name} has no effect; did you mean {meant}?"
            raise invalid_parameter(name, name, meant, message=message)


def _printable(key: str) -> str:
    """Checks the characters of a key, and that a text with dots has the parts of an ID token."""
    if not _CREDENTIAL.fullmatch(key):
        fault = "contains a blank, a line break or another character that no key has"
    elif key.count(".") not in {0, _DOTS_OF_A_TOKEN}:
        fault = "contains a dot, which only an ID token of three parts has"
    else:
        return key
    remedy = f'copy the whole key; of a file, {KEY_VARIABLE}="$(cat FILE)"'
    message = f"The API key {fault}: {remedy}."
    allowed = "a key (letters, digits and _) or an ID token (the same, - and .)"
    raise invalid_parameter("api_key", "another text", allowed, message=message)


def _is_plaintext_allowed(chosen: bool | None) -> bool:  # noqa: FBT001  # True, False or unset
    if chosen is not None:
        return chosen
    value = os.environ.get(PLAINTEXT_VARIABLE, "")
    if value.lower() not in _TRUE + _FALSE:
        raise invalid_parameter(PLAINTEXT_VARIABLE, value, "true or false")
    return value.lower() in _TRUE


def _is_loopback(authority: str) -> bool:
    host = authority.partition("/")[0]
    host = host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _check_files(tls: TlsFiles) -> None:
    """Rejects files that gRPC or OpenSSL would reject later, in other words."""
    import ssl  # noqa: PLC0415  slow, for clients with such files only

    files = {"ca": tls.ca, "certificate": tls.certificate, "key": tls.key}
    for option, file in files.items():
        if file is not None:
            _check_readable(option, os.fspath(file))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if tls.ca is not None:
        try:
            context.load_verify_locations(tls.ca)
        except OSError:
            raise _unusable_file("ca", tls.ca, "contains no certificate") from None
    if tls.certificate is None:
        if tls.key is not None:
            raise _unusable_file("key", tls.key, "needs the certificate of --certificate")
        return
    try:
        # Without a password of ours, OpenSSL would prompt the terminal for that of a locked key.
        context.load_cert_chain(tls.certificate, tls.key, password="")
    except OSError:
        key = tls.key or tls.certificate
        fault = f"and the key {key} are no certificate and its own key without a password"
        raise _unusable_file("certificate", tls.certificate, fault) from None


def _check_readable(option: str, file: str) -> None:
    if is_like_a_key(file):
        message = f"--{option} takes a PEM file and was given an API key; did you mean --api-key?"
        raise invalid_parameter(option, "an API key", "a PEM file", message=message)
    try:
        Path(file).read_bytes()
    except OSError as error:
        raise _unusable_file(option, file, f"cannot be read ({error.strerror})") from None


def _unusable_file(option: str, file: str | os.PathLike[str], fault: str) -> Exception:
    message = (
        f"--{option} {file} {fault}: pass a file in PEM, in Python with TlsFiles({option}=...)."
    )
    return invalid_parameter(option, f"{file}", "a file in PEM that can be read", message=message)


def unusable(tls: TlsFiles, error: OSError) -> Exception:
    """The exception for files that changed since the access was checked."""
    fault = f"cannot be used ({error.strerror or error})"
    return _unusable_file("ca", tls.ca or tls.certificate or "", fault)
