"""Public names outside Python: RPCs, routes, settings, commands, statuses, options."""

from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import typer.main

import opserve_pytest
from opserve_client.access import ADDRESS_VARIABLE, CA_VARIABLE, KEY_VARIABLE
from opserve_client.cli import app
from opserve_client.cli_connection import CONNECTION_OPTIONS
from opserve_client.conform import command_line
from opserve_client.conform.writers.github import SUMMARY_VARIABLE
from opserve_kernels.profiles import PROFILES
from opserve_kernels.registry import OPERATORS
from opserve_kernels.status import DOMAINS, ExitStatus
from opserve_server.core.principal import Scope
from opserve_server.core.tenants import Resource
from opserve_server.rest_api.app import declared_api
from opserve_server.settings import PREFIX, Settings

PROTOS = Path(__file__).resolve().parents[2] / "protos"
VARIABLES: Mapping[str, str] = {
    ADDRESS_VARIABLE: "the address of `Client` and of every command, where none is given",
    CA_VARIABLE: "the authorities' PEM file of the same, for addresses with grpcs:// or https://",
    KEY_VARIABLE: "the API key of `Client` and of every command, where none is given",
    "XDG_CACHE_HOME": "parent folder of `opserve`, which has expected values and compiled kernels",
    "XDG_STATE_HOME": "parent folder of `opserve/opserve.db`, the default store",
    "NUMBA_CACHE_DIR": "folder of compiled kernels",
    SUMMARY_VARIABLE: "file that `opserve conform --github` writes to; GitHub sets it",
    "OTEL_EXPORTER_OTLP_ENDPOINT": "collector of the service's traces",
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "the same, for traces alone",
}
"""Environment variables besides the settings."""


def rpcs() -> Iterator[str]:
    """Service and method, in the order of the protos."""
    for path in sorted(PROTOS.glob("opserve/*/*_service_pb2.py")):
        module = ".".join(path.relative_to(PROTOS).with_suffix("").parts)
        descriptor = import_module(module).DESCRIPTOR
        for service in descriptor.services_by_name.values():
            yield from (f"{service.name}/{method.name}" for method in service.methods)


@cache
def _document() -> dict[str, Any]:
    return declared_api().openapi()


def routes() -> dict[str, tuple[str, ...]]:
    """Parameters outside the path, by verb and path."""
    return {
        f"{verb.upper()} {path}": tuple(
            one["name"] for one in operation.get("parameters", ()) if one["in"] != "path"
        )
        for path, operations in _document()["paths"].items()
        for verb, operation in operations.items()
    }


def json_members() -> dict[str, tuple[str, ...]]:
    """Members of the objects in bodies and answers, by schema."""
    schemas: dict[str, Any] = _document()["components"]["schemas"]
    return {
        name: tuple(schema["properties"])
        for name, schema in sorted(schemas.items())
        if schema.get("properties")
    }


def settings() -> list[str]:
    """Environment variables of the service."""
    return [f"{PREFIX}{name.upper()}" for name in Settings.model_fields]


def commands() -> dict[str, tuple[str, ...]]:
    """Arguments in capitals, and options, by command."""
    return {
        **dict(_commands(typer.main.get_command(app), "opserve")),
        **dict(_commands(typer.main.get_command(command_line.app), "opserve conform")),
    }


def _commands(command: Any, path: str) -> Iterator[tuple[str, tuple[str, ...]]]:  # noqa: ANN401  # typer's own copy of click
    below: Mapping[str, Any] = getattr(command, "commands", {})
    # Those of the program are the same in every command below it.
    own = [one for one in command.params if below or one not in CONNECTION_OPTIONS]
    words = tuple(word for parameter in own for word in _words(parameter))
    if words or not below:
        yield path, words
    for name, one in below.items():
        yield from _commands(one, f"{path} {name}")


def _words(parameter: Any) -> list[str]:  # noqa: ANN401  # as above
    if parameter.param_type_name == "argument":
        return [parameter.name.upper()]
    return [*parameter.opts, *parameter.secondary_opts]


def exit_statuses() -> list[str]:
    """Numbers with their names."""
    return [f"{status.value} {status.name}" for status in ExitStatus]


def status_codes() -> list[str]:
    """Numbers with their names, by domain."""
    return [
        f"{domain} {code.value} {code.name}"
        for family, domain in DOMAINS.items()
        for code in family
    ]


def words() -> dict[str, tuple[str, ...]]:
    """Values that calls, settings and commands take, by their kind."""
    return {
        "profile": tuple(PROFILES),
        "operator": tuple(operator.call for operator in OPERATORS.values()),
        "scope": tuple(Scope),
        "resource of a quota": tuple(Resource),
    }


def pytest_options() -> list[str]:
    """Options of the plugin."""
    parser = pytest.Parser(_ispytest=True)
    opserve_pytest.pytest_addoption(parser)
    return [name for option in parser.getgroup("opserve").options for name in option.names()]
