"""A call may name buffers besides its tensors: they must be live, large enough and apart."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from opserve_kernels.operator import NamedBuffer, Plan, PlanOptions
from opserve_kernels.profiles import Profile
from opserve_kernels.registry import OPERATORS
from opserve_kernels.status import DeconvStatus
from opserve_kernels.tensor import DataType, Tensor
from opserve_server.core.errors import HandleNotFound, InvalidArgument, OpserveError
from server.core import every_command as c
from server.core.caller import Caller

Names = Callable[[int], None]
SCRATCH_BYTES = 1024


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Names:
    """Lets calls of im2col_backward name a buffer, as those of deconv_grad_filter do."""
    operator = OPERATORS["im2col_backward"]

    def name(handle: int) -> None:
        named = NamedBuffer(
            parameter="temp_space",
            handle=handle,
            size_bytes=SCRATCH_BYTES,
            status=DeconvStatus.DECONV_PARAM_INVALID,
        )

        def plan(arguments: Any, profile: Profile, options: PlanOptions) -> Plan:
            return replace(operator.plan(arguments, profile, options), buffers=(named,))

        monkeypatch.setitem(OPERATORS, operator.name, replace(operator, plan=plan))

    return name


async def refused_plan(caller: Caller, **changes: Any) -> OpserveError:
    with pytest.raises(OpserveError) as refusal:
        await caller.plan(**changes)
    return refusal.value


def is_invalid(error: OpserveError) -> bool:
    known = (DeconvStatus.DECONV_PARAM_INVALID, "temp_space")
    return isinstance(error, InvalidArgument) and (error.status, error.parameter) == known


@pytest.mark.parametrize("handle", [99, -1, 2**70])
async def test_a_handle_of_no_buffer_is_refused_in_phase_one(
    caller: Caller, names: Names, handle: int
) -> None:
    names(handle)
    error = await refused_plan(caller)
    assert isinstance(error, HandleNotFound)
    assert (error.parameter, error.given) == ("temp_space", str(handle))
    assert error.allowed == "0 or a live buffer of this session, of which a call in one has none"


async def test_a_small_buffer_is_refused_in_phase_one(caller: Caller, names: Names) -> None:
    names(await caller.buffer(SCRATCH_BYTES - 1))
    error = await refused_plan(caller)
    assert is_invalid(error)
    assert "1023 bytes; it accepts 0 or a buffer of at least 1024" in error.message


async def test_a_buffer_that_is_freed_after_phase_one_is_refused_in_phase_two(
    caller: Caller, names: Names
) -> None:
    handle = await caller.buffer(SCRATCH_BYTES)
    names(handle)
    planned = await caller.plan()
    workspace = await caller.buffer(planned.workspace_size)
    await caller.run(c.Free(buffer=handle))
    execute = c.Execute(executor=planned.executor, workspace=workspace)
    error = await caller.refused(execute)
    assert isinstance(error, HandleNotFound)
    assert error.parameter == "temp_space"
    assert error.given == f"{handle}, which is no longer there"
    assert caller.device.calls == []


async def test_a_buffer_keeps_its_memory_until_the_call_is_done(
    caller: Caller, names: Names
) -> None:
    handle = await caller.buffer(SCRATCH_BYTES)
    names(handle)
    planned = await caller.plan()
    await caller.execute(planned)
    free = caller.device.slabs.free_bytes
    session = next(iter(caller.service._sessions._sessions.values()))
    buffer = session.buffers.get(handle)
    await caller.run(c.Free(buffer=handle))
    assert buffer.freed
    assert buffer.users
    caller.device.finish(caller.device.held[0])
    await asyncio.sleep(0)
    await caller.run(c.SynchronizeStream())
    assert not buffer.users
    assert caller.device.slabs.free_bytes == free


@pytest.mark.parametrize("field", ["out", "grad_output"])
async def test_scratch_that_overlaps_a_tensor_is_refused_in_both_phases(
    caller: Caller, names: Names, field: str
) -> None:
    handle = await caller.buffer()
    names(handle)
    image = Tensor(shape=(1, 4, 4), dtype=DataType.FLOAT, buffer=handle)
    columns = Tensor(shape=(9, 4), dtype=DataType.FLOAT16, strides=(1, 9), buffer=handle)
    tensor = {"out": image, "grad_output": columns}[field]
    assert is_invalid(await refused_plan(caller, **{field: tensor}))
    apart = replace(tensor, offset=SCRATCH_BYTES // tensor.dtype.size_bytes)
    planned = await caller.plan(**{field: apart})
    index = OPERATORS["im2col_backward"].tensor_fields.index(field)
    await caller.run(c.SetTensorBuffer(executor=planned.executor, index=index, buffer=handle))
    await caller.execute(planned)
    replanned = await caller.plan()
    await caller.run(c.SetTensorBuffer(executor=replanned.executor, index=index, buffer=handle))
    workspace = await caller.buffer(replanned.workspace_size)
    execute = c.Execute(executor=replanned.executor, workspace=workspace)
    assert is_invalid(await caller.refused(execute))


async def test_scratch_that_overlaps_the_workspace_is_refused(caller: Caller, names: Names) -> None:
    handle = await caller.buffer()
    names(handle)
    planned = await caller.plan()
    execute = c.Execute(executor=planned.executor, workspace=handle)
    refusal = await caller.refused(execute)
    assert refusal.parameter == "workspace"
    assert "temp_space lies" in refusal.message
    await caller.run(replace(execute, workspace_offset=SCRATCH_BYTES))
