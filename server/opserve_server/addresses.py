"""Addresses of a service: their parts, and whether other machines can reach them."""

import ipaddress
from urllib.parse import urlsplit

_PORT_MAXIMUM = 65535
_LOOPBACK_HOSTS = frozenset({"localhost", "127.0.0.1", "::1"})


def host_and_port(address: str) -> tuple[str, int]:
    """Splits "host:port" or "[host]:port".

    Raises:
        ValueError: The address has another form; the message is the allowed one.
    """
    host, separator, port = address.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    numeric = port.isascii() and port.isdigit()
    if not (separator and host and numeric and int(port) <= _PORT_MAXIMUM):
        raise ValueError(f"host:port, the port 0 to {_PORT_MAXIMUM}")
    return host, int(port)


def reached(address: str, scheme: str, *, host: str) -> str:
    """The URL of a bound address, by another host name unless that is empty.

    Args:
        address: host:port, with or without a scheme.
        scheme: The scheme where it has none.
        host: Host name; empty means that of the address.
    """
    given, separator, authority = address.rpartition("://")
    bound, _, port = authority.rpartition(":")
    shown = f"[{host}]" if ":" in host else host
    return f"{given if separator else scheme}://{shown or bound}:{port}"


def is_loopback(address: str) -> bool:
    """Whether only this machine can reach an address."""
    host, _ = host_and_port(address)
    return is_loopback_host(host)


def is_loopback_host(host: str) -> bool:
    """Whether a name or address, without a port, is one of this machine's loopback."""
    if host in _LOOPBACK_HOSTS:
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def check_issuer(url: str) -> None:
    """Rejects the URL of an issuer that is neither HTTPS nor on loopback, or has more than a path.

    Raises:
        ValueError: The message is the allowed form.
    """
    allowed = "https://HOST or https://HOST/PATH without a slash at its end"
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname or "", parts.port
    except ValueError:
        raise ValueError(allowed) from None
    secure = parts.scheme == "https" or (parts.scheme == "http" and is_loopback_host(host))
    extra = parts.query or parts.fragment or "@" in parts.netloc or url.endswith(("/", "?", "#"))
    if not (secure and host and url.isascii() and url.isprintable()) or extra:
        raise ValueError(allowed)
