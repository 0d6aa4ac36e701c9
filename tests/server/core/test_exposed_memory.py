"""Memory that a client maps: never where a call computes, never another session's."""

import pytest

from opserve_server.core.errors import HandleNotFound
from opserve_server.core.memory_commands import MappedBuffer
from opserve_server.core.principal import LOCAL, Principal, Scope
from server.core import every_command as c
from server.core.caller import SIZE, Caller

STRANGER = Principal(tenant="another", name="anonymous", scopes=frozenset({Scope.OPERATE}))


def map_buffer(caller: Caller, buffer: int) -> MappedBuffer | None:
    return caller.service.map_buffer(LOCAL, caller.name, buffer)


async def test_an_exposed_buffer_is_where_the_session_reads_and_writes(caller: Caller) -> None:
    await caller.buffer()
    buffer = await caller.buffer(SIZE)
    found = map_buffer(caller, buffer)
    assert found is not None
    assert found.idle
    start, size = found.offset, found.size_bytes
    assert (start, size) == (SIZE, SIZE)
    found.slab.memory[start : start + size] = b"\7" * size
    content = await caller.run(c.Read(buffer=buffer, size_bytes=size))
    assert content.data == b"\7" * size


async def test_an_allocation_says_its_place_in_a_slab_that_the_client_has_mapped(
    caller: Caller,
) -> None:
    command = c.Allocate(size_bytes=SIZE)
    first = await caller.run(command)
    assert (first.slab, first.offset) == (0, 0)
    found = map_buffer(caller, first.buffer)
    assert found is not None
    second = await caller.run(command)
    assert (second.slab, second.offset) == (found.slab.id, found.offset + SIZE)
    planned = await caller.plan()
    workspace = await caller.run(c.Allocate(workspace_of=planned.executor))
    assert (workspace.slab, workspace.offset) == (0, 0), "no client maps a workspace"


async def test_a_workspace_that_a_client_maps_is_replaced(caller: Caller) -> None:
    caller.device.auto = True
    planned = await caller.plan()
    workspace = await caller.buffer(planned.workspace_size)
    found = map_buffer(caller, workspace)
    assert found is not None
    await caller.run(c.SetRepeatable(executor=planned.executor))
    command = c.Execute(executor=planned.executor, workspace=workspace)
    for _ in range(2):
        await caller.run(command)
    await caller.run(c.SynchronizeStream())
    first, second = (call.workspace for call in caller.device.calls)
    assert first is not None
    assert first == second, "calls that share a workspace share what replaces it"
    assert first.slab != found.slab.id
    assert first.size_bytes == planned.workspace_size


async def test_a_slab_is_exposed_when_no_call_computes_in_it(caller: Caller) -> None:
    planned = await caller.plan()
    buffer = await caller.buffer()
    await caller.execute(planned)
    assert map_buffer(caller, buffer) is None
    caller.device.finish(caller.device.held[0])
    await caller.run(c.SynchronizeStream())
    assert map_buffer(caller, buffer) is not None


async def test_a_replacement_of_a_workspace_is_replaced_when_it_is_mapped_too(
    caller: Caller,
) -> None:
    caller.device.auto = True
    planned = await caller.plan()
    await caller.run(c.SetRepeatable(executor=planned.executor))
    workspace = await caller.buffer(planned.workspace_size)
    map_buffer(caller, workspace)
    command = c.Execute(executor=planned.executor, workspace=workspace)
    for _ in range(3):  # the device itself asserts that no workspace is exposed
        await caller.run(command)
        await caller.run(c.SynchronizeStream())
        used = caller.device.calls[-1].workspace
        assert used is not None
        found = map_buffer(caller, await caller.buffer(8 * SIZE))
        while found is not None and found.slab.id != used.slab:
            found = map_buffer(caller, await caller.buffer(8 * SIZE))
        assert found is not None, "no call is left that would keep it hidden"


async def test_a_replacement_of_a_workspace_returns_with_it(caller: Caller) -> None:
    caller.device.auto = True
    planned = await caller.plan()
    workspace = await caller.buffer(planned.workspace_size)
    map_buffer(caller, workspace)
    await caller.run(c.Execute(executor=planned.executor, workspace=workspace))
    for buffer in (1, 2, workspace):
        await caller.run(c.Free(buffer=buffer))
    await caller.run(c.SynchronizeStream())
    await caller.buffer(caller.device.memory_bytes)


async def test_memory_that_was_mapped_is_no_other_sessions(caller: Caller) -> None:
    whole = caller.device.memory_bytes
    buffer = await caller.buffer(whole)
    found = map_buffer(caller, buffer)
    assert found is not None
    found.slab.memory[:] = b"\xff" * whole
    await caller.service.close_session(LOCAL, caller.name)
    await caller.open()
    again = await caller.buffer(whole)
    assert not any((await caller.run(c.Read(buffer=again, size_bytes=whole))).data)
    fresh = map_buffer(caller, again)
    assert fresh is not None
    assert fresh.slab is not found.slab


async def test_an_exposed_slab_is_given_back_when_memory_runs_out(caller: Caller) -> None:
    buffer = await caller.buffer()
    found = map_buffer(caller, buffer)
    assert found is not None
    await caller.run(c.Free(buffer=buffer))
    whole = await caller.buffer(caller.device.memory_bytes)
    assert map_buffer(caller, whole) is not None
    assert found.slab.id not in caller.device.attached


async def test_nothing_of_another_tenant_is_revealed(caller: Caller) -> None:
    buffer = await caller.buffer()
    with pytest.raises(HandleNotFound) as foreign:
        caller.service.map_buffer(STRANGER, caller.name, buffer)
    with pytest.raises(HandleNotFound) as unknown:
        caller.service.map_buffer(STRANGER, "0" * 32, buffer)
    assert foreign.value.message == unknown.value.message.replace("0" * 32, caller.name)
    with pytest.raises(HandleNotFound):
        map_buffer(caller, buffer + 1)
