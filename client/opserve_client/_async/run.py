"""session.run: a whole call, arrays in and arrays out."""

from collections.abc import Mapping

from opserve.v1.memory_service_pb2 import WriteRequest
from opserve_client._async.session_calls import AsyncSessionCalls
from opserve_client.errors import OpserveError
from opserve_client.operators import OperatorCall, ResultT_co, check_owners, plain
from opserve_client.rule_warnings import warn_of_results
from opserve_client.run_batches import (
    SMALL_BYTES,
    History,
    Prepared,
    execute_and_wait,
    first_error,
    planned_call,
    prepare,
    read_request,
    whole_call,
)
from opserve_client.tensors import Array, elements_of, span_bytes


async def run(calls: AsyncSessionCalls, call: OperatorCall[ResultT_co]) -> ResultT_co:
    """Runs a call on the default stream and frees what it made, also when it fails."""
    check_owners(call, calls)
    call = plain(call)
    prepared, history = prepare(call), History()
    at_once = prepared.size_bytes <= SMALL_BYTES
    try:
        if at_once:
            outputs = await _run_at_once(calls, prepared, history)
        else:
            outputs = await _run_in_steps(calls, prepared, history)
    except BaseException as error:
        try:
            await _free(calls, history)
        except OpserveError as second:
            error.add_note(f"What the call had made is freed with the session: {second}")
        raise
    await _free(calls, history)
    return call.result(outputs)


async def _run_at_once(
    calls: AsyncSessionCalls, prepared: Prepared, history: History
) -> Mapping[str, Array]:
    commands, results = await calls.submit(lambda last: whole_call(prepared, last))
    history.note(commands, results)
    warn_of_results(results)
    error = first_error(results)
    # A call without a workspace has none to free: the batch ends with the refusal of that.
    if error and len(results) < len(commands):
        raise error
    read = iter([result.read.data for result in results if result.HasField("read")])
    return {
        name: elements_of(spec, bytearray(next(read) if span_bytes(spec) else b""))
        for name, spec in prepared.results.items()
    }


async def _run_in_steps(
    calls: AsyncSessionCalls, prepared: Prepared, history: History
) -> Mapping[str, Array]:
    commands, results = await calls.submit(lambda last: planned_call(prepared, last))
    history.note(commands, results)
    warn_of_results(results)
    error = first_error(results)
    if error:
        raise error
    executor = results[0].get_workspace_size.executor
    workspace = results[1].allocate.buffer
    buffers = {
        part.name: result.allocate.buffer
        for part, result in zip(prepared.parts, results[2::2], strict=True)
    }
    for part in prepared.parts:
        if part.data:
            await calls.write(WriteRequest(buffer=buffers[part.name]), part.data)
    executing = execute_and_wait(executor=executor, workspace=workspace)
    results = await calls.send(executing)
    history.note(executing, results)
    error = first_error(results)
    if error:
        raise error
    placed = prepared.placed(buffers)
    return {
        name: elements_of(spec, await calls.read(read_request(placed[name])))
        for name, spec in prepared.results.items()
    }


async def _free(calls: AsyncSessionCalls, history: History) -> None:
    leftovers = history.leftovers()
    if leftovers:
        results = await calls.send(leftovers)
        error = first_error(results)
        if error and len(results) <= len(history.buffers):
            raise error
