"""Memory that queued work or a wait still needs: kept until then, and returned once."""

import asyncio

import pytest

from opserve_kernels.tensor import DataType, Tensor
from opserve_server.core import results
from opserve_server.core.errors import HandleNotFound, OutOfMemory
from opserve_server.core.principal import LOCAL
from server.core import every_command as c
from server.core.caller import SIZE, Caller


def columns_in(buffer: int) -> Tensor:
    """Inputs of a call of Caller.plan."""
    return Tensor(shape=(9, 4), dtype=DataType.FLOAT16, strides=(1, 9), buffer=buffer)


async def test_a_buffer_that_holds_two_tensors_of_a_call_returns_once(caller: Caller) -> None:
    shared = await caller.buffer()
    image = Tensor(shape=(1, 4, 4), dtype=DataType.FLOAT, offset=SIZE // 8, buffer=shared)
    await caller.execute(await caller.plan(grad_output=columns_in(shared), out=image))
    await caller.run(c.Free(buffer=shared))
    await caller.finish()
    for handle in [await caller.buffer() for _ in range(10)]:
        content = await caller.run(c.Read(buffer=handle, size_bytes=SIZE))
        assert content.data == bytes(SIZE), "two buffers share memory"
        await caller.run(c.Fill(buffer=handle, value=handle, size_bytes=SIZE))


async def test_memory_in_use_belongs_to_no_other_session(caller: Caller) -> None:
    whole = caller.device.memory_bytes
    shared = await caller.buffer(whole // 2)
    image = Tensor(shape=(1, 4, 4), dtype=DataType.FLOAT, offset=SIZE // 8, buffer=shared)
    await caller.execute(await caller.plan(grad_output=columns_in(shared), out=image))
    await caller.run(c.Free(buffer=shared))
    await caller.finish()
    used = await caller.buffer(whole // 2)
    other = (await caller.service.open_session(LOCAL)).session
    with pytest.raises(OutOfMemory):
        await caller.service.run(LOCAL, other, c.Allocate(size_bytes=whole // 2))
    assert len((await caller.run(c.Read(buffer=used, size_bytes=SIZE))).data) == SIZE


async def test_a_copy_reads_nothing_of_the_next_owner_of_its_freed_source(caller: Caller) -> None:
    whole = caller.device.memory_bytes
    source, target = await caller.buffer(whole // 2), await caller.buffer()
    first, second = [await caller.plan(grad_output=columns_in(at)) for at in (source, target)]
    await caller.execute(first)
    copying = asyncio.create_task(
        caller.run(c.Copy(destination=target, source=source, size_bytes=SIZE))
    )
    await asyncio.sleep(1)
    await caller.execute(second)
    await caller.finish()
    assert not copying.done(), "it waits for the call that reads its destination"
    await caller.run(c.Free(buffer=source))
    other = (await caller.service.open_session(LOCAL)).session
    secret = await caller.service.run(LOCAL, other, c.Allocate(size_bytes=whole // 2))
    assert isinstance(secret, results.Allocated)
    fill = c.Fill(buffer=secret.buffer, value=0x5E, size_bytes=whole // 2)
    await caller.service.run(LOCAL, other, fill)
    await caller.finish()
    with pytest.raises(HandleNotFound):
        await copying
    content = await caller.run(c.Read(buffer=target, size_bytes=SIZE))
    assert content.data == bytes(SIZE), "another session's bytes"
