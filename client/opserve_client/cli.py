"""The command `opserve` and its sub-commands for services, operators and calls."""

import json
import sys
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import typer
import typer.main
from rich.console import Console
from rich.table import Table
from typer.core import TyperCommand
from typing_extensions import override

from opserve_client import (
    cli_abi,
    cli_admin,
    cli_apply,
    cli_farm,
    cli_keys,
    cli_ping,
    cli_tenants,
    cli_top,
    cli_trace,
)
from opserve_client.access import DEFAULT_ADDRESS
from opserve_client.become import become
from opserve_client.cli_connection import (
    Accuracy,
    Address,
    ConnectedGroup,
    DocumentedRules,
    connected,
)
from opserve_client.cli_rows import AsJson, named_like, printable, show_json
from opserve_client.errors import OpserveError
from opserve_client.file_errors import check_writable, sentence_of
from opserve_client.files import (
    RESULTS_SUFFIX,
    FileError,
    read_arguments,
    read_tensors,
    run_file,
    write_tensors,
)
from opserve_client.operator_pages import show_all, show_one
from opserve_client.rule_warnings import DocumentedRuleWarning
from opserve_client.wire.json_messages import to_full_json
from opserve_kernels.status import ExitStatus
from opserve_kernels.user_input import without_keys

app = typer.Typer(
    name="opserve",
    cls=ConnectedGroup,
    help="Run Huawei CANN convolution operators, forward and backward, on virtual devices.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
_CALL_HELP = (
    "Name of the call, such as aclnnConvolutionBackward; `opserve operators` lists all. A function "
    "of FT-DSP has its own name."
)
_ARGUMENTS_HELP = (
    "JSON file with the arguments; dtypes are the vendor's names (FLOAT, FLOAT16, BF16) or NumPy's "
    "(float32, float16, bfloat16)."
)
_SERVICE, _CALLS, _VERDICTS, _TEAMS = "Service", "Calls", "Verdicts", "Administration"
"""Panels of the help, in their order."""


def main() -> None:
    """Runs the command line; an error prints one line on standard error, with exit status 1."""
    try:
        app()
    except (OpserveError, FileError, OSError) as error:
        text = sentence_of(error) if isinstance(error, OSError) else str(error)
        one_line = printable(without_keys(" ".join(text.split())))
        sys.stderr.write(f"opserve: {one_line}\n")
        sys.exit(ExitStatus.FAILED)


@app.callback(invoke_without_command=True)
def options(
    *,
    show_version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.")
    ] = False,
) -> None:
    """Run Huawei CANN convolution operators, forward and backward, on virtual devices.

    The environment variable OPSERVE_API_KEY authenticates calls to a service. OPSERVE_ADDRESS and
    OPSERVE_CA are the defaults of --address and --ca.
    """
    if show_version:
        typer.echo(f"opserve {version('opserve')}")
        raise typer.Exit


@app.command(rich_help_panel=_SERVICE)
def serve(
    grpc_address: Annotated[
        str | None, typer.Option(help="HOST:PORT of the gRPC API; port 0 means a free port.")
    ] = None,
    rest_address: Annotated[
        str | None, typer.Option(help="HOST:PORT of the REST API; port 0 means a free port.")
    ] = None,
    device: Annotated[
        list[str] | None,
        typer.Option(help="Profile of a device; repeat the option for several devices."),
    ] = None,
    device_memory_bytes: Annotated[
        str | None, typer.Option(help="Memory of each device, in bytes or with a unit: 512MiB.")
    ] = None,
    *,
    no_keys: Annotated[
        bool, typer.Option("--no-keys", help="Accept calls without an API key, on loopback only.")
    ] = False,
) -> None:
    """Run the service until Ctrl-C. All other settings are OPSERVE_ environment variables."""
    settings = {
        "OPSERVE_GRPC_ADDRESS": grpc_address,
        "OPSERVE_REST_ADDRESS": rest_address,
        "OPSERVE_DEVICES": json.dumps(device) if device else None,
        "OPSERVE_DEVICE_MEMORY_BYTES": device_memory_bytes,
        "OPSERVE_NO_KEYS": "true" if no_keys else None,
    }
    become("opserve_server", settings={k: v for k, v in settings.items() if v is not None})


@app.command(rich_help_panel=_SERVICE)
def warmup() -> None:
    """Compile the kernels ahead of the first start of a service, unless they are compiled."""
    become("opserve_server.warmup")


@app.command(rich_help_panel=_SERVICE)
def bootstrap(
    store: Annotated[
        str | None, typer.Option(help="URL of the store; the default is OPSERVE_STORE_URL.")
    ] = None,
    tenant: Annotated[str, typer.Option(help="Tenant of the key.")] = "admin",
    *,
    force: Annotated[
        bool,
        typer.Option(
            "--force",
            help="Create a key although the store has administrators, and revoke the keys that "
            "this command created before. Default: the command fails where a key can administer.",
        ),
    ] = False,
) -> None:
    """Create the first administrator's API key in the store, and show it once."""
    arguments = ["--tenant", tenant, *(["--force"] if force else [])]
    settings = {} if store is None else {"OPSERVE_STORE_URL": store}
    become("opserve_server.bootstrap", settings=settings, arguments=arguments)


app.command(rich_help_panel=_SERVICE)(cli_ping.ping)
app.add_typer(cli_farm.farm, name="farm", rich_help_panel=_SERVICE)


@app.command(rich_help_panel=_CALLS)
def devices(
    context: typer.Context, *, as_json: AsJson = False, address: Address = DEFAULT_ADDRESS
) -> None:
    """Show the devices of a service."""
    with connected(context, address) as client:
        found = client.list_devices()
    if as_json:
        show_json([asdict(device) for device in found])
        return
    table = Table(box=None, padding=(0, 1), collapse_padding=True)
    in_farm = any(device.host for device in found)
    hosts = ["host"] if in_farm else []
    for column in (
        *hosts,
        "device",
        "profile",
        "ready",
        "sessions",
        "free / memory\nMiB",
    ):
        table.add_column(column, no_wrap=True)
    table.add_column("operators", overflow="fold")  # a narrow terminal cuts no host
    for device in found:
        free, memory = device.free_memory_bytes >> 20, device.memory_bytes >> 20
        table.add_row(
            *([device.host] if in_farm else []),
            device.name,
            device.profile,
            "yes" if device.ready else "no",
            str(device.sessions),
            f"{free} / {memory}",
            "\n".join(device.operators),
        )
    Console().print(table)


@app.command(rich_help_panel=_CALLS)
def operators(
    context: typer.Context,
    name: Annotated[
        str,
        typer.Argument(help="Call or name of one operator: aclnnIm2colBackward, im2col_backward."),
    ] = "",
    *,
    as_json: AsJson = False,
    address: Address = DEFAULT_ADDRESS,
) -> None:
    """Show all operators of a service, or one with its parameters, profiles, limits and errors."""
    with connected(context, address) as client:
        described = client.list_operators(name)
    if as_json:
        show_json([to_full_json(operator) for operator in described])
    elif name:
        show_one(described[0])
    else:
        show_all(described)


@app.command(rich_help_panel=_CALLS)
def run(  # noqa: PLR0913  # arguments of the command
    context: typer.Context,
    call: Annotated[str, typer.Argument(help=_CALL_HELP)],
    arguments: Annotated[Path, typer.Argument(metavar="ARGS.json", help=_ARGUMENTS_HELP)],
    tensors: Annotated[
        Path, typer.Argument(metavar="TENSORS.npz", help="Arrays of the call: .npz or .npy.")
    ],
    output: Annotated[
        Path,
        typer.Option(
            "-o",
            "--output",
            callback=named_like(RESULTS_SUFFIX),
            help="Write the results to this .npz file, an array for each output.",
        ),
    ],
    address: Address = DEFAULT_ADDRESS,
    *,
    accuracy: Accuracy = "direct",
    documented_rules: DocumentedRules = "error",
    as_json: AsJson = False,
) -> None:
    """Run one operator on arrays in files."""
    request = read_arguments(arguments)
    arrays = read_tensors(tensors)
    with (
        warnings.catch_warnings(record=True, category=DocumentedRuleWarning) as broken,
        connected(context, address) as client,
        client.open_session(
            request.profile, accuracy=accuracy, documented_rules=documented_rules
        ) as session,
    ):
        warnings.simplefilter("always", DocumentedRuleWarning)
        results = run_file(session, call, request.arguments, arrays)
    for one in broken:
        typer.echo(f"opserve: warning: {one.message}", err=True)
    dtypes = write_tensors(output, results)
    shapes = {name: list(array.shape) for name, array in results.items()}
    _show_outputs(shapes, dtypes, as_json=as_json)


def _show_outputs(
    shapes: Mapping[str, Sequence[int]], dtypes: Mapping[str, str], *, as_json: bool
) -> None:
    if as_json:
        show_json([{"output": n, "shape": s, "dtype": dtypes[n]} for n, s in shapes.items()])
        return
    table = Table("output", "shape", "dtype")
    for name, shape in shapes.items():
        table.add_row(name, str(shape), dtypes[name])
    Console().print(table)


class _Conform(TyperCommand):
    """`opserve conform`, whose commands are imported when they run or are completed."""

    @override
    def shell_complete(self, ctx: Any, incomplete: str) -> list[Any]:
        from opserve_client.conform import command_line  # noqa: PLC0415  slow, as below

        command: Any = typer.main.get_command(command_line.app)
        arguments = list(ctx.args)
        if arguments:
            command = command.commands.get(arguments.pop(0), command)
        inner = command.make_context("conform", arguments, parent=ctx, resilient_parsing=True)
        found: list[Any] = command.shell_complete(inner, incomplete)
        return found


@app.command(
    cls=_Conform,
    rich_help_panel=_VERDICTS,
    context_settings={
        "allow_extra_args": True,
        "allow_interspersed_args": False,
        "ignore_unknown_options": True,
        "help_option_names": [],
    },
)
def conform(context: typer.Context) -> None:
    """Run kernels on conformance cases and judge the results; see `opserve conform --help`."""
    from opserve_client.conform import command_line  # noqa: PLC0415  slow, for this command only

    command_line.main(context.args, context.obj)


app.command(rich_help_panel=_CALLS)(cli_trace.trace)
app.add_typer(cli_abi.abi, name="abi", rich_help_panel=_CALLS)


@app.command(rich_help_panel=_CALLS)
def demo(
    *,
    picture: Annotated[
        Path | None,
        typer.Option(
            callback=named_like(".png"),
            help="Write the loss by step and a few digits to this .png file.",
        ),
    ] = None,
) -> None:
    """Train a small network on handwritten digits with a service that the command starts."""
    from opserve_client import demo as demonstration  # noqa: PLC0415  needs the extra [demo]

    if picture is not None:
        check_writable(picture)
    raise typer.Exit(demonstration.main(picture))


app.command(rich_help_panel=_TEAMS)(cli_apply.apply)
for command in (cli_admin.usage, cli_admin.audit, cli_admin.who, cli_admin.release, cli_top.top):
    app.command(rich_help_panel=_TEAMS)(command)
for group, name in (
    (cli_tenants.tenants, "tenant"),
    (cli_tenants.quotas, "quota"),
    (cli_keys.keys, "key"),
    (cli_keys.certificates, "certificate"),
    (cli_keys.identities, "identity"),
):
    app.add_typer(group, name=name, rich_help_panel=_TEAMS)
