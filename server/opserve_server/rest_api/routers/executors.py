"""Executors: planned calls, and phase two."""

from typing import Annotated

from fastapi import APIRouter

from opserve_server.core.commands import SCOPE
from opserve_server.core.operator_commands import (
    DestroyExecutor,
    Execute,
    SetRepeatable,
    SetTensorBuffer,
)
from opserve_server.core.results import Done
from opserve_server.rest_api.dependencies import InSession, from_body, requires
from opserve_server.rest_api.errors import problems
from opserve_server.rest_api.route import ServiceRoute

router = APIRouter(
    prefix="/v1/sessions/{session}/executors",
    tags=["executors"],
    route_class=ServiceRoute,
    dependencies=[requires(SCOPE)],
    responses=problems(404, 409),
)


@router.post("/{executor:int}:execute", name="Execute", status_code=204)
async def execute(
    session: InSession, command: Annotated[Execute, from_body(Execute, "executor")]
) -> None:
    """Phase two: submits an executor; without workspace_size the rest of the buffer is used."""
    await session.run(command, Done)


@router.post("/{executor:int}:setRepeatable", name="SetRepeatable", status_code=204)
async def set_repeatable(
    session: InSession, command: Annotated[SetRepeatable, from_body(SetRepeatable, "executor")]
) -> None:
    """Lets an executor run any number of times."""
    await session.run(command, Done)


@router.post("/{executor:int}:setTensorBuffer", name="SetTensorBuffer", status_code=204)
async def set_tensor_buffer(
    session: InSession, command: Annotated[SetTensorBuffer, from_body(SetTensorBuffer, "executor")]
) -> None:
    """Assigns another buffer to the index-th tensor of an executor."""
    await session.run(command, Done)


@router.delete("/{executor:int}", name="DestroyExecutor", status_code=204)
async def destroy_executor(
    session: InSession, command: Annotated[DestroyExecutor, from_body(DestroyExecutor, "executor")]
) -> None:
    """Ends an executor."""
    await session.run(command, Done)
