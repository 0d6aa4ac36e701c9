"""Operators: descriptions, phase one and one-shot calls. Each operator has its own routes."""

from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query
from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from opserve_kernels.description import OperatorDescription
from opserve_kernels.operator import Operator
from opserve_kernels.registry import OPERATORS
from opserve_server.core.commands import SCOPE
from opserve_server.core.operator_commands import GetWorkspaceSize
from opserve_server.core.results import Planned
from opserve_server.core.service import operator_not_found
from opserve_server.rest_api.bodies import BYTES, OCTETS, form_document
from opserve_server.rest_api.dependencies import (
    Behind,
    Caller,
    Core,
    InSession,
    requires,
    through_body,
)
from opserve_server.rest_api.errors import problems
from opserve_server.rest_api.models import DOCUMENTED, RUN_BODIES, parse, planned_body, values_of
from opserve_server.rest_api.one_shot import run_whole_call
from opserve_server.rest_api.route import ServiceRoute

OperatorName = Annotated[str, Path(description="Name or call of the operator.")]
router = APIRouter(tags=["operators"], route_class=ServiceRoute, dependencies=[requires(SCOPE)])


class ListOperatorsQuery(BaseModel):
    """Selection of operators."""

    model_config = DOCUMENTED

    operator: str = ""
    """Name or call of the operator; empty: all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operators:
    """Every operator: its arguments, dtypes by profile, limits and errors.

    Attributes:
        operators: The operators.
    """

    operators: list[OperatorDescription]


@router.get("/v1/operators", name="listOperators", responses=problems(404))
async def list_operators(
    service: Core, principal: Caller, query: Annotated[ListOperatorsQuery, Query()]
) -> Operators:
    """Describes every operator, or one: arguments, dtypes by profile, limits, errors."""
    return Operators(operators=service.list_operators(principal, query.operator))


@router.get("/v1/operators/{operator}", name="describeOperator", responses=problems(404))
async def describe_operator(
    service: Core, principal: Caller, operator: OperatorName
) -> OperatorDescription:
    """Describes the operator of a name or call."""
    (description,) = service.list_operators(principal, operator)
    return description


def _add_routes(operator: Operator[Any]) -> None:
    """Adds the routes of one operator, with models derived from its schema."""

    @router.post(
        f"/v1/sessions/{{session}}/operators/{operator.call}:getWorkspaceSize",
        name=f"{operator.call}GetWorkspaceSize",
        summary=f"Phase one of {operator.call}.",
        responses=problems(404, 409, 501),
    )
    async def get_workspace_size(
        session: InSession,
        command: Annotated[
            GetWorkspaceSize,
            _planned_by(operator),
        ],
    ) -> Planned:
        """Plans a call."""
        return await session.run(command, Planned)

    @router.post(
        f"/v1/operators/{operator.call}:run",
        name=f"{operator.call}Run",
        summary=f"Runs {operator.call} on the arrays of an .npz file and returns an .npz file.",
        response_class=StreamingResponse,
        responses=problems(400, 404, 409, 413, 501, 504, 507)
        | {200: {"content": {OCTETS: {"schema": BYTES}}}},
        openapi_extra=form_document(RUN_BODIES[operator.name]),
    )
    async def run(request: Request, backend: Behind) -> Response:
        """Runs a whole call."""
        limits, slots = backend.run_limits, backend.run_slots
        return await run_whole_call(backend.service, operator, request, limits=limits, slots=slots)


def _planned_by(operator: Operator[Any]) -> Any:  # noqa: ANN401  # as Depends has it
    model = planned_body(operator.name)

    async def read(document: bytes) -> GetWorkspaceSize:
        values = values_of(parse(model, document))
        arguments = operator.schema(**values_of(values["arguments"]))
        return GetWorkspaceSize(
            operator=operator.name, arguments=arguments, executor=values["executor"]
        )

    return through_body(model, read)


for _operator in OPERATORS.values():
    _add_routes(_operator)


@router.post("/v1/operators/{operator}:run", name="runUnknown", include_in_schema=False)
async def run_unknown(operator: OperatorName) -> None:
    """The one-shot form of an operator that does not exist."""
    raise operator_not_found(operator)
