"""Options of commands that call a service, and the client that they open."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import typer
import typer.main
from typer.core import TyperGroup

from opserve_client._sync.client import Client
from opserve_client.access import (
    ADDRESS_VARIABLE,
    CA_VARIABLE,
    KEY_VARIABLE,
    Access,
    TlsFiles,
    access_to,
)
from opserve_client.arguments import AccuracyName, DocumentedRulesName

_PANEL = "Connection"
_ADDRESSES = frozenset({"address", "server"})
"""Parameters of the commands that call a service."""
ADDRESS_HELP = (
    "Address of the service: HOST:PORT for gRPC, http://HOST:PORT for Connect; grpcs:// or "
    "https:// for TLS."
)
Address = Annotated[str, typer.Option(envvar=ADDRESS_VARIABLE, help=ADDRESS_HELP)]
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
    """Options before or after the name of a command, for calls to a service; the key is a secret.

    None means the default of `Client`.
    """

    ca: Path | None = None
    certificate: Path | None = None
    private_key: Path | None = None
    api_key: str | None = None
    allow_plaintext: bool | None = None

    @property
    def tls(self) -> TlsFiles | None:
        """Certificates for TLS; None means those of the system."""
        files = TlsFiles(ca=self.ca, certificate=self.certificate, key=self.private_key)
        return None if files == TlsFiles() else files


_declarations = typer.Typer(add_completion=False)


@_declarations.command()
def declare_connection_options(
    *,
    ca: Annotated[  # typer reads the declaration, as of those below
        Path | None,
        typer.Option(
            help="PEM file of certificate authorities for the service's certificate; the default "
            f"is that of the variable {CA_VARIABLE}, for addresses with grpcs:// or https://.",
            rich_help_panel=_PANEL,
        ),
    ] = None,
    certificate: Annotated[
        Path | None,
        typer.Option(help="PEM file of the client certificate.", rich_help_panel=_PANEL),
    ] = None,
    private_key: Annotated[  # not key, which is an argument of `opserve key revoke`
        Path | None,
        typer.Option(
            "--key",
            help="PEM file of the client certificate's private key.",
            rich_help_panel=_PANEL,
        ),
    ] = None,
    api_key: Annotated[
        str | None,
        typer.Option(
            help="API key of the caller. Other users of this machine can read options: prefer the "
            f"variable {KEY_VARIABLE}.",
            rich_help_panel=_PANEL,
        ),
    ] = None,
    allow_plaintext: Annotated[
        bool,
        typer.Option(
            "--allow-plaintext",
            help="Send the API key to other machines without TLS.",
            rich_help_panel=_PANEL,
        ),
    ] = False,
) -> None:
    """Declares the options that ConnectedGroup adds to commands."""


def _keep(context: Any, option: Any, value: Any) -> None:  # noqa: ANN401  # typer's own click
    """Adds the value of an option to those that the program and outer commands had."""
    given: ConnectionOptions = context.obj or ConnectionOptions()
    context.obj = replace(given, **{option.name: value}) if value else given


CONNECTION_OPTIONS = tuple(typer.main.get_command(_declarations).params)
"""The options of a connection, for every command that calls a service."""
for one in CONNECTION_OPTIONS:
    one.expose_value = False
    one.callback = _keep


class ConnectedGroup(TyperGroup):
    """A program with the options of a connection before and after the names of its commands.

    Commands with an address of a service have them: `opserve --ca x devices` and `opserve devices
    --ca x` are equal. An option that is given twice has its last value.
    """

    def __init__(self, **attributes: Any) -> None:  # noqa: ANN401  # those of typer
        super().__init__(**attributes)
        for command in (self, *_calling(self)):
            command.params.extend(CONNECTION_OPTIONS)


def _calling(group: Any) -> Iterator[Any]:  # noqa: ANN401  # typer's own copy of click
    """Yields the commands of a group that call a service, also those of its groups."""
    for command in group.commands.values():
        if isinstance(command, TyperGroup):
            yield from _calling(command)
        elif any(parameter.name in _ADDRESSES for parameter in command.params):
            yield command


def connected(context: typer.Context, address: str) -> Client:
    """Opens a client of the service at an address, with the connection options of the command."""
    return client_at(address, context.obj)


def access_at(context: typer.Context, address: str) -> Access:
    """Returns the access to an address, with the connection options of the command."""
    connection: ConnectionOptions = context.obj
    return access_to(
        address,
        api_key=connection.api_key,
        tls=connection.tls,
        allow_plaintext=connection.allow_plaintext,
    )


def client_at(address: str, connection: ConnectionOptions) -> Client:
    """Opens a client of the service at an address."""
    return Client(
        address,
        api_key=connection.api_key,
        tls=connection.tls,
        allow_plaintext=connection.allow_plaintext,
    )
