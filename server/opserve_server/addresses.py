"""Addresses of a service: their parts, and whether other machines can reach them."""

import ipaddress

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
