"""The command `opserve abi`: the C library for programs of the vendor's runtime."""

from pathlib import Path
from typing import Annotated

import typer

from opserve_client.abi.build import ENVIRONMENT
from opserve_client.abi.build import build as build_library

abi = typer.Typer(
    help="The C library by which C++ programs for the vendor's runtime use a service.",
    no_args_is_help=True,
)


@abi.callback()
def group() -> None:
    """The C library by which C++ programs for the vendor's runtime use a service."""


@abi.command()
def build(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="Folder for headers, library and env.sh.")
    ],
    compiler: Annotated[
        str, typer.Option(envvar="CXX", help="The command of a C++17 compiler.")
    ] = "g++",
    flag: Annotated[
        list[str] | None,
        typer.Option(help="An option of the compiler, such as --flag=-g; repeat it for several."),
    ] = None,
) -> None:
    """Build the library: headers, libraries by the vendor's names, and env.sh."""
    folder.mkdir(parents=True, exist_ok=True)
    has_tls = build_library(folder, compiler=compiler, flags=tuple(flag or ()))
    typer.echo(f"built {folder}; its settings: . {folder / ENVIRONMENT}")
    if not has_tls:
        typer.echo(
            "without TLS: OpenSSL's headers are missing (Debian: apt-get install libssl-dev)"
        )
