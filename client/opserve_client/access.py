"""Access to a service: address, API key and certificates."""

import ipaddress
import os
import re
from dataclasses import dataclass, field

from opserve_client.errors import invalid_parameter
from opserve_client.wire.connection_failures import has_port, with_default_port
from opserve_kernels.user_input import similar_name

KEY_VARIABLE = "OPSERVE_API_KEY"
PLAINTEXT_VARIABLE = "OPSERVE_ALLOW_PLAINTEXT"
_TRUE, _FALSE = ("1", "on", "true", "yes"), ("", "0", "false", "no", "off")
_PREFIX = "OPSERVE_"
_TYPO = 0.9
"""Least similarity of a variable to one of the client that makes it a misspelt one."""
_CREDENTIAL = re.compile(r"[A-Za-z0-9_.-]+")
_SCHEMES = {"grpc": False, "grpcs": True, "http": False, "https": True}


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsFiles:
    """Certificates for TLS, in PEM files.

    Attributes:
        ca: Certificate authorities that may sign the service's certificate; None means those of
            the system.
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


def access_to(
    address: str, *, api_key: str | None, tls: TlsFiles | None, allow_plaintext: bool | None
) -> Access:
    """Returns the access to an address.

    Args:
        address: "host:port", or a URL with grpc, grpcs, http or https.
        api_key: API key, or ID token of a CI system; None means the environment
            variable OPSERVE_API_KEY, if it is set.
        tls: Certificates; with them, an address without a scheme means grpcs.
        allow_plaintext: Whether to send a key to another machine without TLS; None means the
            environment variable OPSERVE_ALLOW_PLAINTEXT, by default no.

    Raises:
        AclrtError: 107000, the address has an unknown scheme, a gRPC address has no port, the key
            is malformed, or it would be sent without TLS.
    """
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
    key = _from_environment(KEY_VARIABLE) if api_key is None else api_key
    headers = {"authorization": f"Bearer {_printable(key)}"} if key else {}
    if headers and not (secure or _is_loopback(rest) or _is_plaintext_allowed(allow_plaintext)):
        allowed = (
            "grpcs:// or https:// for a key; in a network that you trust, allow_plaintext=True or "
            f"{PLAINTEXT_VARIABLE}=true"
        )
        raise invalid_parameter("address", address, allowed)
    return Access(is_http, address if is_http else rest, secure, headers, tls or TlsFiles())


def _from_environment(variable: str) -> str:
    """Returns the value of a variable, or ""; rejects a misspelt one, which would be ignored."""
    if variable not in os.environ:
        ours = [name for name in os.environ if name.upper().startswith(_PREFIX)]
        for name in ours:
            if similar_name(name.upper(), (variable,), least=_TYPO):
                message = f"{name} has no effect; did you mean {variable}?"
                raise invalid_parameter(name, name, variable, message=message)
    return os.environ.get(variable, "")


def _printable(key: str) -> str:
    if not _CREDENTIAL.fullmatch(key):
        allowed = "a key (letters, digits and _) or an ID token (the same, - and .)"
        raise invalid_parameter("api_key", "another text", allowed)
    return key


def _is_plaintext_allowed(chosen: bool | None) -> bool:  # noqa: FBT001  # True, False or unset
    if chosen is not None:
        return chosen
    value = _from_environment(PLAINTEXT_VARIABLE)
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


def unusable(tls: TlsFiles, error: OSError) -> Exception:
    """The exception for files that cannot be read or hold something else."""
    reason = error.strerror or str(error)
    return invalid_parameter("tls", f"{tls} ({reason})", "files in PEM that can be read")
