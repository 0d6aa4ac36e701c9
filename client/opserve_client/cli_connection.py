"""Options of commands that call a service, and the client that they open."""

from dataclasses import dataclass
from typing import Annotated

import typer

from opserve_client._sync.client import Client
from opserve_client.access import TlsFiles
from opserve_client.arguments import AccuracyName, DocumentedRulesName

Address = Annotated[
    str,
    typer.Option(
        help="Address of the service: HOST:PORT for gRPC, http://HOST:PORT for REST; grpcs:// or "
        "https:// for TLS."
    ),
]
Accuracy = Annotated[
    AccuracyName,
    typer.Option(
        help="Error bound of results: direct bounds each by its own products, fast also allows "
        "Winograd's algorithm."
    ),
]
DocumentedRules = Annotated[
    DocumentedRulesName,
    typer.Option(
        help="Answer to a call that breaks a rule which only the vendor's page states: error "
        "rejects the call, warn accepts it with a warning."
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionOptions:
    """Options before the name of a command, for calls to a service; the key is a secret."""

    api_key: str | None = None
    tls: TlsFiles | None
    allow_plaintext: bool | None = None


def connected(context: typer.Context, address: str) -> Client:
    """Opens a client of the service at an address, with the program's connection options."""
    connection: ConnectionOptions = context.find_root().obj
    return client_at(address, connection)


def client_at(address: str, connection: ConnectionOptions) -> Client:
    """Opens a client of the service at an address."""
    return Client(
        address,
        api_key=connection.api_key,
        tls=connection.tls,
        allow_plaintext=connection.allow_plaintext,
    )
