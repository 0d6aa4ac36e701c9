"""A program of Triton's stock clients, for the interpreter of .venv-triton: calls in, answers out.

Its arguments are the wire, the address and a folder with calls.json and arrays.npz; it writes
methods.json and outputs.npz there. NumPy has no bfloat16, so files have its bits.
"""

import asyncio
import inspect
import json
import queue
import sys
from importlib import import_module
from pathlib import Path
from urllib.request import Request, urlopen

import ml_dtypes
import numpy as np
from tritonclient._plugin import InferenceServerClientPlugin
from tritonclient.utils import InferenceServerException

BITS = np.dtype(np.uint16)
CALLED_ELSEWHERE = {
    *("infer", "async_infer", "start_stream", "async_stream_infer", "stop_stream", "close"),
    "stream_infer",
    *("register_plugin", "unregister_plugin", "plugin"),
    *("generate_request_body", "parse_response_body"),
}
ARGUMENTS = {
    "is_model_ready": ("aclnnIm2col",),
    "get_model_metadata": ("aclnnIm2col",),
    "get_model_config": ("aclnnIm2col",),
    "update_log_settings": ({"log_info": True},),
    "load_model": ("aclnnIm2col",),
    "unload_model": ("aclnnIm2col",),
    "register_system_shared_memory": ("region", "/key", 64),
    "register_cuda_shared_memory": ("region", b"aGFuZGxl", 0, 64),
}


def prepared(triton, number, call, arrays, *, as_numbers=False):
    """Arguments of a call; with numbers in JSON only over HTTP, where BF16 inputs have none."""
    form = {"binary_data": False} if as_numbers else {}
    inputs = []
    for name, datatype in call["inputs"].items():
        array = arrays[f"{number}.{name}"]
        array = array.view(ml_dtypes.bfloat16) if datatype == "BF16" else array
        inputs.append(triton.InferInput(name, array.shape, datatype))
        inputs[-1].set_data_from_numpy(array, **({} if datatype == "BF16" else form))
    outputs = [triton.InferRequestedOutput(name, **form) for name in call["outputs"]] or None
    return {
        "model_name": call["model"],
        "inputs": inputs,
        "outputs": outputs,
        "parameters": call["parameters"],
    }


def elements(result):
    response = result.get_response()
    over_http = isinstance(response, dict)
    outputs = response["outputs"] if over_http else response.outputs
    names = [output["name"] if over_http else output.name for output in outputs]
    arrays = {name: result.as_numpy(name) for name in names}
    return {
        name: array.view(BITS) if array.dtype == ml_dtypes.bfloat16 else array
        for name, array in arrays.items()
    }


def streamed(client, calls):
    answers = queue.Queue()
    client.start_stream(lambda result, error: answers.put((result, error)))
    for call in calls:
        client.async_stream_infer(**call)
    found = [answers.get(timeout=60) for _ in calls]
    client.stop_stream()
    assert [str(error) for _, error in found if error] == []
    return [result for result, _ in found]


def later_by_callback(client, calls):
    answers = queue.Queue()
    found = []
    for call in calls:
        client.async_infer(callback=lambda result, error: answers.put((result, error)), **call)
        result, error = answers.get(timeout=60)
        assert error is None, error
        found.append(result)
    return found


def later_by_request(client, calls):
    return [made.get_result() for made in [client.async_infer(**call) for call in calls]]


def by_hand(triton, address, calls):
    """Requests that the client writes and reads, and another program sends."""
    found = []
    for call in calls:
        given = {key: value for key, value in call.items() if key != "model_name"}
        body, json_bytes = triton.InferenceServerClient.generate_request_body(**given)
        header = "Inference-Header-Content-Length"
        headers = {header: str(json_bytes)} if json_bytes else {}
        url = f"http://{address}/v2/models/{call['model_name']}/infer"
        with urlopen(Request(url, body, headers)) as answer:
            parsed = triton.InferenceServerClient.parse_response_body(
                answer.read(), header_length=int(answer.headers[header])
            )
        found.append(parsed)
    return found


class Counting(InferenceServerClientPlugin):
    """Counts the calls of a client."""

    calls = 0

    def __call__(self, request):
        self.calls += 1
        request.headers["x-counted"] = "yes"


def with_plugin(client, call):
    plugin = Counting()
    client.register_plugin(plugin)
    assert client.plugin() is plugin
    client.infer(**call)
    client.unregister_plugin()
    assert (plugin.calls, client.plugin()) == (1, None)


async def awaited(triton_aio, address, calls):
    """The results of each way of calling, and the outcomes of the other methods."""
    async with triton_aio.InferenceServerClient(address) as client:
        ways = {"aio": [await client.infer(**call) for call in calls]}
        if hasattr(client, "stream_infer"):
            ways["aio stream"] = await aio_streamed(client, calls)
        outcomes = {name: await outcome(client, name) for name in other_methods(client)}
    return ways, outcomes


async def aio_streamed(client, calls):
    async def given():
        for call in calls:
            yield call

    found = [answer async for answer in client.stream_infer(given())]
    assert [str(error) for _, error in found if error] == []
    return [result for result, _ in found]


def other_methods(client):
    return [name for name in dir(client) if name[0] != "_" and name not in CALLED_ELSEWHERE]


async def outcome(client, name):
    """The outcome of a method of either client: "works", or its error."""
    try:
        answer = getattr(client, name)(*ARGUMENTS.get(name, ()))
        if inspect.isawaitable(answer):
            answer = await answer
    except InferenceServerException as error:
        return str(error)
    return "works" if answer is not False else "answers False"


def methods(client):
    """The outcome of each other public method of a blocking client."""
    return {name: asyncio.run(outcome(client, name)) for name in other_methods(client)}


def main(wire, address, folder):
    triton, triton_aio = (
        import_module(f"tritonclient.{wire}"),
        import_module(f"tritonclient.{wire}.aio"),
    )
    calls = json.loads((folder / "calls.json").read_text())
    with np.load(folder / "arrays.npz") as written:
        arrays = dict(written)
    made = [prepared(triton, number, call, arrays) for number, call in enumerate(calls)]
    with triton.InferenceServerClient(address) as client:
        ways = {"sync": [client.infer(**call) for call in made]}
        if wire == "grpc":
            ways |= {"later": later_by_callback(client, made), "stream": streamed(client, made)}
        else:
            numbers = [
                prepared(triton, number, call, arrays, as_numbers=True)
                for number, call in enumerate(calls)
            ]
            ways |= {"later": later_by_request(client, made)}
            ways |= {"numbers": [client.infer(**call) for call in numbers]}
            ways |= {"by hand": by_hand(triton, address, made)}
        with_plugin(client, made[0])
        outcomes = methods(client)
    aio_ways, aio_outcomes = asyncio.run(awaited(triton_aio, address, made))
    ways |= aio_ways
    outputs = {
        f"{way}.{number}.{name}": array
        for way, results in ways.items()
        for number, result in enumerate(results)
        for name, array in elements(result).items()
    }
    np.savez(folder / "outputs.npz", **outputs)
    (folder / "methods.json").write_text(json.dumps({"sync": outcomes, "aio": aio_outcomes}))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
