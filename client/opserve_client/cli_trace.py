"""The command `opserve trace`: the recent work of a session, for Perfetto."""

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from opserve_client.access import DEFAULT_ADDRESS
from opserve_client.cli_connection import Address, connected
from opserve_client.cli_rows import named_like

_STDIN = "-"


def trace(
    context: typer.Context,
    session: Annotated[
        str,
        typer.Argument(
            help="Name of the session, `session.name` in Python. Other users of this machine can "
            "read arguments, and the name is a secret: - reads it from standard input."
        ),
    ],
    *,
    stream: Annotated[
        int | None,
        typer.Option(
            min=0, help="Handle of one stream, 0 for the default stream. Default: all streams."
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            callback=named_like(".json"),
            help="Write the trace to this .json file. Default: standard output.",
        ),
    ] = None,
    address: Address = DEFAULT_ADDRESS,
) -> None:
    """Write the recent kernels, waits and copies of a session as a JSON trace for Perfetto.

    The session stays open. Times are microseconds since the first event.
    """
    name = sys.stdin.readline().strip() if session == _STDIN else session
    with connected(context, address) as client:
        text = json.dumps(client.get_trace(name, stream=stream))
    if output is None:
        typer.echo(text)
    else:
        output.write_text(text, encoding="utf-8")
