"""Equal calls are planned once; what a plan depends on makes calls unequal, and nothing else."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from kernels.samples import REGISTRY_SAMPLES
from opserve_kernels.errors import InvalidArgument
from opserve_kernels.operator import Plan, PlanOptions
from opserve_kernels.operators.im2col_backward.schema import Im2colBackward
from opserve_kernels.registry import OPERATORS
from opserve_kernels.status import Status
from opserve_kernels.tensor import DataType, Tensor
from opserve_server.core.accounts import Accounts
from opserve_server.core.executors import Plans
from opserve_server.core.operator_commands import GetWorkspaceSize
from opserve_server.core.principal import Principal, Scope
from opserve_server.core.service import Service
from opserve_server.core.tenants import Tenant
from opserve_server.core.whole_calls import WholeCall
from server.core.fakes import LIMITS, FakeDevice

CALL = Im2colBackward(
    grad_output=Tensor(shape=(4, 9), dtype=DataType.FLOAT, buffer=1),
    input_size=(4, 4),
    kernel_size=(2, 2),
    dilation=(1, 1),
    padding=(0, 0),
    stride=(1, 1),
    out=Tensor(shape=(1, 4, 4), dtype=DataType.FLOAT, buffer=2),
)
OPERATOR = OPERATORS["im2col_backward"]
OPTIONS = PlanOptions()


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The arguments that the operator is asked to plan."""
    asked: list[object] = []
    plan: Callable[..., Plan] = OPERATOR.plan

    def counted(arguments: Any, profile: Any, options: Any) -> Plan:
        asked.append(arguments)
        return plan(arguments, profile, options)

    operators = {OPERATOR.name: replace(OPERATOR, plan=counted)}
    monkeypatch.setattr("opserve_server.core.executors.OPERATORS", operators)
    return asked


def supported_elsewhere(call: Im2colBackward, buffer: int) -> Im2colBackward:
    """The same call with its tensors in other buffers."""
    assert call.grad_output is not None
    assert call.out is not None
    return replace(
        call,
        grad_output=replace(call.grad_output, buffer=buffer),
        out=replace(call.out, buffer=buffer + 1),
    )


def test_a_call_that_differs_in_its_buffers_is_not_planned_again(planned: list[object]) -> None:
    plans = Plans("ascend910b", limit=2)
    first = plans.plan(OPERATOR, CALL, OPTIONS)
    assert all(
        plans.plan(OPERATOR, supported_elsewhere(CALL, buffer), OPTIONS) is first
        for buffer in (0, 7)
    )
    assert len(planned) == 1


def test_a_call_that_differs_otherwise_is_planned_itself(planned: list[object]) -> None:
    plans = Plans("ascend910b", limit=2)
    assert CALL.grad_output is not None
    strided = replace(CALL, grad_output=replace(CALL.grad_output, strides=(10, 1)))
    assert plans.plan(OPERATOR, CALL, OPTIONS) != plans.plan(OPERATOR, strided, OPTIONS)
    assert len(planned) == 2


def test_the_plan_that_was_used_least_recently_is_forgotten(planned: list[object]) -> None:
    plans = Plans("ascend910b", limit=2)
    assert CALL.grad_output is not None
    second = replace(CALL, grad_output=replace(CALL.grad_output, offset=1))
    third = replace(CALL, grad_output=replace(CALL.grad_output, offset=2))
    for call in (CALL, second, CALL, third, CALL):
        plans.plan(OPERATOR, call, OPTIONS)
    assert len(planned) == 3
    plans.plan(OPERATOR, second, OPTIONS)
    assert len(planned) == 4


def test_a_refusal_is_not_remembered_as_a_plan(planned: list[object]) -> None:
    plans = Plans("ascend910b", limit=2)
    for _ in range(2):
        with pytest.raises(InvalidArgument):
            plans.plan(OPERATOR, replace(CALL, stride=(0, 1)), OPTIONS)
    assert len(planned) == 2


def test_a_call_beyond_64_bits_is_refused() -> None:
    many = 2**61
    columns = Tensor(shape=(many, 1, 2**20), dtype=DataType.FLOAT, strides=(0, 0, 0))
    image = Tensor(shape=(many, 1, 2**10, 2**10), dtype=DataType.FLOAT, strides=(0, 0, 0, 0))
    call = replace(
        CALL, grad_output=columns, out=image, kernel_size=(1, 1), input_size=(2**10, 2**10)
    )
    with pytest.raises(InvalidArgument) as refusal:
        Plans("ascend910b", limit=2).plan(OPERATOR, call, OPTIONS)
    assert refusal.value.status == Status.ACL_ERROR_RT_MEMORY_ALLOCATION
    assert refusal.value.parameter == "call"


@pytest.mark.parametrize("operator", REGISTRY_SAMPLES)
def test_arguments_of_every_operator_can_be_remembered(operator: str) -> None:
    for sample in REGISTRY_SAMPLES[operator]:
        plans = Plans(sample.profile, limit=1)
        handles = {name: place + 1 for place, name in enumerate(sample.tensors)}
        plan = plans.plan(OPERATORS[operator], sample.arguments(handles), OPTIONS)
        assert plans.plan(OPERATORS[operator], sample.arguments(), OPTIONS) is plan


async def test_sessions_of_a_tenant_share_their_plans_and_those_of_two_tenants_do_not(
    planned: list[object],
) -> None:
    device = FakeDevice()
    accounts = Accounts()
    accounts.renew([Tenant(name="lab"), Tenant(name="mill")])
    service = Service([device], limits=LIMITS, accounts=accounts)
    for tenant in ("lab", "lab", "mill"):
        caller = Principal(tenant=tenant, name="", scopes=frozenset({Scope.OPERATE}))
        opened = await service.open_session(caller)
        bufferless = supported_elsewhere(CALL, 0)
        assert bufferless.out is not None
        call = replace(bufferless, out=replace(bufferless.out, buffer=0))
        plan = GetWorkspaceSize(operator=OPERATOR.name, arguments=call)
        inputs = {0: bytes(4 * 36)}
        await service.compute(caller, opened.session, WholeCall(plan=plan, inputs=inputs))
    assert len(planned) == 2
    await service.stop()
    device.slabs.close()
