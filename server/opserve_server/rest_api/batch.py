"""Body and answer of a Submit."""

import base64
import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import GenericAlias
from typing import Annotated, Any

from pydantic import BaseModel, Field, create_model

from opserve_kernels.docstrings import description_of
from opserve_kernels.errors import shortened
from opserve_kernels.registry import OPERATORS
from opserve_server.calls import malformed, quota_members
from opserve_server.core.commands import HANDLERS, Command
from opserve_server.core.errors import ExecutionFailed, OpserveError
from opserve_server.core.operator_commands import GetWorkspaceSize
from opserve_server.core.results import Content, Failed, Result
from opserve_server.core.time_slices import in_slices
from opserve_server.rest_api.models import (
    ARGUMENTS,
    EXECUTOR,
    STRICT,
    FirstFault,
    Int64,
    derived,
    parsed_parts,
    values_of,
)
from opserve_server.settings import COMMANDS_MAXIMUM


def _key(command: type[Command]) -> str:
    """A command's key: its name in the oneof of opserve.v1.Command."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", command.__name__).lower()


def _body(command: type[Command]) -> Any:  # noqa: ANN401  # a type made at run time
    if command is not GetWorkspaceSize:
        return derived(command, command.__name__) | None
    operators: dict[str, Any] = {
        name: (model | None, Field(None, description=f"Arguments of {OPERATORS[name].call}."))
        for name, model in ARGUMENTS.items()
    }
    made = create_model(
        command.__name__,
        __config__=STRICT,
        __doc__=description_of(command),
        executor=(Annotated[Int64, Field(description=EXECUTOR)], 0),
        **operators,
    )
    return made | None


COMMANDS: Mapping[str, type[Command]] = {_key(command): command for command in HANDLERS}
"""Every command, by its key."""

# Fields have a "_" after their key, since pydantic models have a method "copy".
_members: dict[str, Any] = {
    f"{key}_": (_body(command), Field(None, alias=key, description=description_of(command)))
    for key, command in COMMANDS.items()
}
CommandBody = create_model(
    "Command", __config__=STRICT, __doc__="One command: a single key and its fields.", **_members
)
_list: Any = Annotated[
    GenericAlias(list, (CommandBody,)), FirstFault(), Field(max_length=COMMANDS_MAXIMUM)
]
_batch: dict[str, Any] = {
    "commands": (Annotated[_list, Field(description="The commands, in order.")], [])
}
SubmitBody = create_model(
    "Submit",
    __config__=STRICT,
    __doc__="Commands, run in order up to the first that fails.",
    **_batch,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """One entry for each command that ran: its key and result; the failed one's `error` last.

    Attributes:
        results: The entries.
    """

    results: list[dict[str, Any]]


async def commands_in(document: bytes) -> list[tuple[str, Command]]:
    """Key and command of every entry of a body, parsed in parts that do not block other calls.

    Raises:
        InvalidArgument: 100000, an entry does not have exactly one command.
    """
    commands: list[tuple[str, Command]] = []
    async for before, body in parsed_parts(SubmitBody, document, "commands"):
        entries: list[BaseModel] = values_of(body)["commands"]
        if before + len(entries) > COMMANDS_MAXIMUM:
            given, allowed = "a longer list", f"a list of at most {COMMANDS_MAXIMUM}"
            raise malformed("commands", given=given, allowed=allowed)
        async for index, entry in in_slices(enumerate(entries, before)):
            commands.append(_command(index, entry))
    return commands


def result_in_json(key: str, result: Result) -> dict[str, object]:
    """One command's answer: its key and result, or the error that ended the batch."""
    match result:
        case Failed():
            return {"error": _error(result.error)}
        case Content():
            return {key: {"data": base64.b64encode(result.data).decode()}}
        case _:
            return {key: result}


def _command(index: int, entry: BaseModel) -> tuple[str, Command]:
    given = {name.removesuffix("_"): body for name, body in entry if body is not None}
    if len(given) != 1:
        names = ", ".join(given) or "nothing"
        raise malformed(f"commands.{index}", given=names, allowed="one command")
    ((key, body),) = given.items()
    if key == "get_workspace_size":
        return key, _planned(f"commands.{index}.{key}", values_of(body))
    return key, COMMANDS[key](**values_of(body))


def _planned(path: str, values: dict[str, Any]) -> GetWorkspaceSize:
    executor: int = values.pop("executor")
    given = {name: body for name, body in values.items() if body is not None}
    if len(given) != 1:
        names = ", ".join(given) or "nothing"
        raise malformed(f"{path}.operator", given=names, allowed=f"one of {', '.join(OPERATORS)}")
    ((name, body),) = given.items()
    arguments = OPERATORS[name].schema(**values_of(body))
    return GetWorkspaceSize(operator=name, arguments=arguments, executor=executor)


def _error(error: OpserveError) -> dict[str, object]:
    return {
        "code": error.status.value,
        "reason": error.status.name,
        "domain": error.status.domain,
        "message": shortened(error.message),
        "parameter": shortened(error.parameter),
        "given": shortened(error.given),
        "allowed": shortened(error.allowed),
        "executor": error.executor if isinstance(error, ExecutionFailed) else 0,
        **quota_members(error),
    }
