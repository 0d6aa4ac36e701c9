"""session.run: a whole call, from arrays to arrays."""

from collections.abc import Mapping

from opserve.v1.command_service_pb2 import Command
from opserve.v1.memory_service_pb2 import AllocateResponse, WriteRequest
from opserve_client._async.session_calls import AsyncSessionCalls
from opserve_client.call_shapes import remember, shape_of
from opserve_client.errors import OpserveError, is_unknown_call
from opserve_client.operators import OperatorCall, ResultT_co, check_owners, plain
from opserve_client.rule_warnings import warn_of, warn_of_results
from opserve_client.run_batches import (
    SMALL_BYTES,
    DeviceObjects,
    Prepared,
    WholeCall,
    execute_and_wait,
    first_error,
    is_small,
    planned_call,
    prepare,
    read_request,
    small_writes,
)
from opserve_client.tensors import Array, elements_of
from opserve_client.wire.methods import RUN


async def run(calls: AsyncSessionCalls, call: OperatorCall[ResultT_co]) -> ResultT_co:
    """Runs a call on the default stream, and frees all objects it created, also after a failure."""
    check_owners(call, calls)
    shape = shape_of(call)
    whole = None if shape is None else calls.whole_calls.get(shape)
    if whole is None:
        call = plain(call)
        prepared = prepare(call)
        if prepared.size_bytes > SMALL_BYTES or calls.in_steps:
            return call.result(await _run_and_free(calls, prepared))
        whole = WholeCall(prepared)
        remember(calls.whole_calls, shape, whole)
    try:
        answer = await calls.call(RUN, whole.request(call, calls.session))
    except OpserveError as error:
        if not is_unknown_call(error):
            raise
        # A service of the previous release.
        calls.in_steps = True
        calls.whole_calls.clear()
        return await run(calls, call)
    warn_of(answer.warnings)
    return call.result(whole.outputs(answer))


async def _run_and_free(calls: AsyncSessionCalls, prepared: Prepared) -> Mapping[str, Array]:
    made = DeviceObjects()
    try:
        outputs = await _run_in_steps(calls, prepared, made)
    except BaseException as error:
        try:
            await _free(calls, made)
        except OpserveError as second:
            error.add_note(f"Objects of the call are freed with the session: {second}")
        raise
    await _free(calls, made)
    return outputs


async def _run_in_steps(
    calls: AsyncSessionCalls, prepared: Prepared, made: DeviceObjects
) -> Mapping[str, Array]:
    commands, results = await calls.submit(lambda last: planned_call(prepared, last))
    made.update(commands, results)
    warn_of_results(results)
    error = first_error(results)
    if error:
        raise error
    executor = results[0].get_workspace_size.executor
    workspace = results[1].allocate.buffer
    allocated = {
        part.name: result.allocate
        for part, result in zip(prepared.parts, results[2::2], strict=True)
    }
    buffers = {name: answer.buffer for name, answer in allocated.items()}
    await _write_large(calls, prepared, allocated)
    placed = prepared.placed(buffers)
    small = [name for name in prepared.results if is_small(placed[name])]
    # Small tensors go with phase two: a request for each would take longer than its copy.
    executing = [
        *small_writes(prepared, buffers),
        *execute_and_wait(executor=executor, workspace=workspace),
        *(Command(read=read_request(placed[name])) for name in small),
    ]
    results = await calls.send(executing)
    made.update(executing, results)
    error = first_error(results)
    if error:
        raise error
    reads = results[len(results) - len(small) :]
    spans: dict[str, bytearray | memoryview] = {
        name: bytearray(one.read.data) for name, one in zip(small, reads, strict=True)
    }
    for name in prepared.results:
        if name not in spans:
            # The caller frees the buffers next, which fails if the session has ended meanwhile.
            spans[name] = await calls.read(read_request(placed[name]), new=allocated.get(name))
    return {name: elements_of(spec, spans[name]) for name, spec in prepared.results.items()}


async def _write_large(
    calls: AsyncSessionCalls, prepared: Prepared, allocated: Mapping[str, AllocateResponse]
) -> None:
    for part in prepared.parts:
        if part.data and not part.is_small:
            new = allocated[part.name]
            await calls.write(WriteRequest(buffer=new.buffer), part.data, new=new)


async def _free(calls: AsyncSessionCalls, made: DeviceObjects) -> None:
    commands = made.cleanup()
    if commands:
        results = await calls.send(commands)
        error = first_error(results)
        # An executor that phase two rejected is destroyed already: only a buffer's error counts.
        if error and len(results) <= len(made.buffers):
            raise error
