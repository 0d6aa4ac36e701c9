"""How commands reach a service: options of the program, and those that every command has."""

from dataclasses import dataclass
from typing import Annotated

import typer

from opserve_client._sync.client import Client
from opserve_client.access import TlsFiles
from opserve_client.arguments import AccuracyName, DocumentedRulesName

Address = Annotated[
    str,
    typer.Option(
        help="The service: HOST:PORT speaks gRPC, http://HOST:PORT speaks REST; grpcs:// and "
        "https:// under TLS."
    ),
]


Accuracy = Annotated[
    AccuracyName,
    typer.Option(help="Error bound: of each result's own products, or with Winograd's algorithm."),
]
DocumentedRules = Annotated[
    DocumentedRulesName,
    typer.Option(help="Answer to a call that breaks a rule which only the vendor's page states."),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ways:
    """What every command that calls a service is told before its name; the key is a secret."""

    api_key: str | None = None
    tls: TlsFiles | None
    allow_plaintext: bool | None = None


def connected(context: typer.Context, address: str) -> Client:
    """A client of the service at an address, as the options of the program say."""
    ways: Ways = context.find_root().obj
    return client_at(address, ways)


def client_at(address: str, ways: Ways) -> Client:
    """A client of the service at an address."""
    return Client(address, api_key=ways.api_key, tls=ways.tls, allow_plaintext=ways.allow_plaintext)
