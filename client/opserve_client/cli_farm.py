"""The commands `opserve farm`: services of a farm, which Ray places and restarts."""

from dataclasses import asdict
from operator import itemgetter
from typing import Annotated

import typer

from opserve_client import extras
from opserve_client.access import DEFAULT_ADDRESS
from opserve_client.become import become
from opserve_client.cli_connection import Address, connected
from opserve_client.cli_rows import AsCsv, AsJson, show

_PROGRAM = "opserve_server.placement"
_RAY_VARIABLE = "RAY_ADDRESS"
_RAY_HELP = "HOST:PORT of the head of the Ray cluster; run the command on one of its machines."

farm = typer.Typer(
    help="Services of a farm, which Ray places on its machines and restarts.",
    no_args_is_help=True,
)
_STATUS = ("host", "name", "profile", "ready", "sessions", "free_memory_bytes")
Services = Annotated[
    list[str],
    typer.Argument(metavar="PROFILE=N...", help="Number of services of a profile: ascend910b=2."),
]
Ray = Annotated[str, typer.Option("--ray", envvar=_RAY_VARIABLE, help=_RAY_HELP)]


@farm.callback()
def group() -> None:
    """Services of a farm, which Ray places on its machines and restarts."""


@farm.command()
def up(
    services: Services,
    ray: Annotated[
        str,
        typer.Option(
            "--ray",
            envvar=_RAY_VARIABLE,
            help=f"{_RAY_HELP} The address local starts a Ray on this machine, and the command "
            "runs until Ctrl-C or `opserve farm down`.",
        ),
    ],
) -> None:
    """Start services, each with a device of its profile, and show their addresses.

    All services have the OPSERVE_ settings of this command, such as OPSERVE_STORE_URL.
    """
    _place("up", *services, ray=ray)


@farm.command()
def status(
    context: typer.Context,
    *,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
    address: Address = DEFAULT_ADDRESS,
) -> None:
    """Show the devices of all services of the farm, by the service at an address.

    The numbers of other services are those of their last renewal.
    """
    with connected(context, address) as client:
        found = client.list_devices()
    rows = sorted(map(asdict, found), key=itemgetter("host", "name"))
    show(rows, columns=_STATUS, as_json=as_json, as_csv=as_csv)


@farm.command()
def scale(services: Services, ray: Ray) -> None:
    """Start or drain services until each profile has its number; others stay as they are."""
    _place("scale", *services, ray=ray)


@farm.command()
def drain(
    hosts: Annotated[
        list[str],
        typer.Argument(metavar="HOST...", help="Name of a service, from `opserve farm status`."),
    ],
    ray: Ray,
) -> None:
    """End services that accept no more sessions and complete their work; wait for their ends."""
    _place("drain", *hosts, ray=ray)


@farm.command()
def down(ray: Ray) -> None:
    """Drain all services."""
    _place("down", ray=ray)


def _place(command: str, *names: str, ray: str) -> None:
    extras.require("ray", need="opserve farm")
    become(_PROGRAM, arguments=[command, *names, "--ray", ray])
