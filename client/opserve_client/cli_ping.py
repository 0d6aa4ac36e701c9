"""The command `opserve ping`: the version, latency and access of a service."""

import sys
from dataclasses import replace
from statistics import median
from time import perf_counter
from typing import Annotated

import typer

from opserve_client._sync.client import Client
from opserve_client.access import DEFAULT_ADDRESS
from opserve_client.cli_connection import Address, access_at, client_at, connected
from opserve_client.cli_rows import AsJson, Row, printable, show, show_json
from opserve_client.errors import (
    AuthenticationError,
    OpserveError,
    PermissionDeniedError,
    ServiceUnreachable,
)
from opserve_kernels.status import ExitStatus

CALLS = 9
"""Measured calls, after a first one that opens the connection."""
_MS_PER_S = 1e3
_COLUMNS = ("address", "api", "tls", "reachable", "key", "version", "latency_ms")


def ping(
    context: typer.Context,
    place: Annotated[
        str | None, typer.Argument(metavar="[ADDRESS]", help="The same as --address.")
    ] = None,
    *,
    address: Address = DEFAULT_ADDRESS,
    as_json: AsJson = False,
) -> None:
    """Check that a service answers and accepts the caller; show its version and latency.

    latency_ms is the median of 9 calls, in milliseconds. The exit status is 0 if the service
    accepts the caller, and 1 with one sentence on standard error otherwise.
    """
    address = place or address
    access = access_at(context, address)
    row: dict[str, str | float | bool | None] = {
        "address": address,
        "api": "Connect" if access.is_http else "gRPC",
        "tls": access.secure,
        "reachable": True,
        "key": "accepted" if access.headers else "not required",
        "version": None,
        "latency_ms": None,
    }
    failure: OpserveError | None = None
    with connected(context, address) as client:
        try:
            row["version"] = client.get_version() or None
            row["latency_ms"] = _latency_ms(client)
            if access.headers and _needs_no_key(context, address):
                row["key"] = "not required"
        except OpserveError as error:
            failure = error
            row |= _failed(error, has_key=bool(access.headers))
    if failure is None or as_json:
        _show(row, as_json=as_json)
    if failure is not None:
        sys.stderr.write(f"opserve: {printable(' '.join(str(failure).split()))}\n")
        raise typer.Exit(ExitStatus.FAILED)


def _needs_no_key(context: typer.Context, address: str) -> bool:
    """Returns whether the service accepts callers without a key, and so did not check this one."""
    with client_at(address, replace(context.obj, api_key="")) as client:
        try:
            client.get_version()
        except OpserveError:
            return False
    return True


def _latency_ms(client: Client) -> float:
    """Returns the median duration of a call, in milliseconds."""
    durations_s: list[float] = []
    for _ in range(CALLS):
        begin = perf_counter()
        client.get_version()
        durations_s.append(perf_counter() - begin)
    return round(median(durations_s) * _MS_PER_S, 3)


def _failed(error: OpserveError, *, has_key: bool) -> Row:
    match error:
        case AuthenticationError():
            return {"key": "rejected" if has_key else "missing"}
        case PermissionDeniedError():
            return {"key": "without the scope operate"}
        case ServiceUnreachable():
            return {"reachable": False, "key": None}
        case _:
            return {"key": None}


def _show(row: Row, *, as_json: bool) -> None:
    if as_json:
        show_json(dict(row))
    else:
        show([row], columns=_COLUMNS)
