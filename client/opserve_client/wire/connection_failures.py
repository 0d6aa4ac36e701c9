"""Sentences for failed connections: what happened and what to do, by the text of the failure.

The texts are those of gRPC's core with BoringSSL, of Python's ssl and socket, and of http_messages.
"""

import re
from collections.abc import Collection
from dataclasses import dataclass

_DEFAULT_PORTS = {"http": "80", "https": "443"}
_DEFAULT_GRPC_PORT = 50051
_LAST_PORT = 65535
_TLS = ("grpcs", "https")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rule:
    """A sentence for the failures of some schemes whose text contains a pattern.

    Attributes:
        schemes: Schemes of the address.
        pattern: A regular expression.
        sentence: The cause and the remedy; {place} is host and port.
    """

    schemes: Collection[str]
    pattern: str
    sentence: str


_RULES = (
    _Rule(
        schemes=("grpc", "http", *_TLS),
        pattern="errors resolving|DNS resolution failed|not known|name resolution|getaddrinfo",
        sentence="this computer cannot resolve the host name of {place}: check its spelling, or "
        "use the IP address",
    ),
    _Rule(
        schemes=_TLS,
        pattern="Hostname Verification Check failed|is not in peer certificate|Hostname mismatch|"
        "IP address mismatch",
        sentence="the service's certificate is for another name: use a name that the certificate "
        "lists, or issue one that lists the host of {place}",
    ),
    _Rule(
        schemes=_TLS,
        pattern="certificate has expired|certificate is not yet valid",
        sentence="the service's certificate is not valid at this time: renew it, or correct the "
        "clock of this computer",
    ),
    _Rule(
        schemes=_TLS,
        pattern="CERTIFICATE_VERIFY_FAILED",
        sentence="no authority that this client trusts signed the service's certificate: pass the "
        "PEM file of its authority, --ca FILE or tls=TlsFiles(ca=FILE)",
    ),
    _Rule(
        schemes=("grpcs",),
        pattern="WRONG_VERSION_NUMBER",
        sentence="the port does not use TLS: write grpc://{place}, or http://{place} for HTTP",
    ),
    _Rule(
        schemes=("https",),
        pattern="WRONG_VERSION_NUMBER",
        sentence="the port does not use TLS: write http://{place}, or grpc://{place} for gRPC",
    ),
    _Rule(
        schemes=("grpcs",),
        pattern="missing selected ALPN",
        sentence="the port uses TLS and is no gRPC port: for HTTP, write https://{place}",
    ),
    _Rule(
        schemes=("https",),
        pattern="connection ended before the answer",
        sentence="the port uses TLS and closed the connection without an answer, as a gRPC port "
        "does: for gRPC, write grpcs://{place}",
    ),
    _Rule(
        schemes=("grpc",),
        pattern="http1.x server|Expected SETTINGS frame",
        sentence="the port is no gRPC port: for HTTP, write http://{place}",
    ),
    _Rule(
        schemes=("http",),
        pattern="the port sent no HTTP",
        sentence="the port is no HTTP port: for gRPC, write grpc://{place}",
    ),
    _Rule(
        schemes=("grpc",),
        pattern="failed to connect.*(Socket closed|reset by peer|forcibly closed)",
        sentence="the port closes new connections, as a port with TLS does: for TLS, write "
        "grpcs://{place} (gRPC) or https://{place} (HTTP)",
    ),
    _Rule(
        schemes=("http",),
        pattern="connection ended before the answer|reset by peer|forcibly closed",
        sentence="the port closed the connection without an answer, as a port with TLS does, or a "
        "service that ends: for TLS, write https://{place} (HTTP) or grpcs://{place} (gRPC)",
    ),
)
_OTHERWISE = "no connection; is the service running there (`opserve serve`)?"


def explained(address: str, failure: str) -> str:
    """Returns a message for a failed connection.

    Args:
        address: A URL with the scheme grpc, grpcs, http or https.
        failure: The text of the library that failed.
    """
    scheme, _, rest = address.partition("://")
    place = rest.partition("/")[0]
    sentences = (
        rule.sentence.format(place=place)
        for rule in _RULES
        if scheme in rule.schemes and re.search(rule.pattern, failure)
    )
    message = f"{address}: {next(sentences, _OTHERWISE)}"
    if scheme in _DEFAULT_PORTS and not has_port(place):
        message += (
            f"; the address has no port, so the client called port {_DEFAULT_PORTS[scheme]}: add "
            f"that of the service's HTTP port, {scheme}://{place}:8080 by default"
        )
    return f"{message} ({failure})"


def has_port(place: str) -> bool:
    """Returns whether a host is followed by a port, as in "farm:50051" and "[::1]:50051"."""
    host, separator, port = place.rpartition(":")
    is_number = port.isascii() and port.isdecimal()
    return bool(host and separator) and is_number and 1 <= int(port) <= _LAST_PORT


def with_default_port(place: str) -> str:
    """Returns the host of an address with the default port of a service, as a suggestion."""
    host = place if place.endswith("]") else place.partition(":")[0]
    is_host = host and not host.isdecimal()
    return f"{host if is_host else '127.0.0.1'}:{_DEFAULT_GRPC_PORT}"
