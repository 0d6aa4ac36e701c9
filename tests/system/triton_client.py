"""A program of Triton's stock client, for the interpreter of .venv-triton: calls in, answers out.

Its arguments are the address and a folder with calls.json and arrays.npz; it writes answers.json
and outputs.npz there. NumPy has no bfloat16, so files have its bits.
"""

import asyncio
import json
import queue
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import tritonclient.grpc as triton
import tritonclient.grpc.aio as triton_aio

BITS = np.dtype(np.uint16)


def prepared(number, call, arrays):
    inputs = []
    for name, datatype in call["inputs"].items():
        array = arrays[f"{number}.{name}"]
        array = array.view(ml_dtypes.bfloat16) if datatype == "BF16" else array
        inputs.append(triton.InferInput(name, array.shape, datatype))
        inputs[-1].set_data_from_numpy(array)
    outputs = [triton.InferRequestedOutput(name) for name in call["outputs"]] or None
    return {
        "model_name": call["model"],
        "inputs": inputs,
        "outputs": outputs,
        "parameters": call["parameters"],
    }


def elements(result):
    found = {}
    for output in result.get_response().outputs:
        array = result.as_numpy(output.name)
        found[output.name] = array.view(BITS) if output.datatype == "BF16" else array
    return found


def streamed(client, calls):
    answers = queue.Queue()
    client.start_stream(lambda result, error: answers.put((result, error)))
    for call in calls:
        client.async_stream_infer(**call)
    found = [answers.get(timeout=60) for _ in calls]
    client.stop_stream()
    return [result for result, _ in found], [str(error) for _, error in found if error]


def later(client, calls):
    answers = queue.Queue()
    found = []
    for call in calls:
        client.async_infer(callback=lambda result, error: answers.put((result, error)), **call)
        result, error = answers.get(timeout=60)
        assert error is None, error
        found.append(result)
    return found


async def awaited(address, calls):
    async with triton_aio.InferenceServerClient(address) as client:
        assert await client.is_server_ready()
        return [await client.infer(**call) for call in calls]


def methods(client):
    """The outcome of each other public method: "works", or its error."""
    arguments = {
        "is_model_ready": ("aclnnIm2col",),
        "get_model_metadata": ("aclnnIm2col",),
        "get_model_config": ("aclnnIm2col",),
        "update_log_settings": ({"log_info": True},),
        "load_model": ("aclnnIm2col",),
        "unload_model": ("aclnnIm2col",),
        "register_system_shared_memory": ("region", "/key", 64),
        "register_cuda_shared_memory": ("region", b"aGFuZGxl", 0, 64),
    }
    others = {"infer", "async_infer", "start_stream", "async_stream_infer", "stop_stream", "close"}
    others |= {"register_plugin", "unregister_plugin", "plugin"}
    found = {}
    for name in dir(client):
        if name.startswith("_") or name in others:
            continue
        try:
            getattr(client, name)(*arguments.get(name, ()))
            found[name] = "works"
        except triton.InferenceServerException as error:
            found[name] = str(error)
    return found


def main(address, folder):
    calls = json.loads((folder / "calls.json").read_text())
    arrays = np.load(folder / "arrays.npz")
    made = [prepared(number, call, arrays) for number, call in enumerate(calls)]
    with triton.InferenceServerClient(address) as client:
        ways = {"sync": [client.infer(**call) for call in made], "later": later(client, made)}
        ways["stream"], errors = streamed(client, made)
        ways["aio"] = asyncio.run(awaited(address, made))
        answers = {"methods": methods(client), "stream_errors": errors}
    outputs = {
        f"{way}.{number}.{name}": array
        for way, results in ways.items()
        for number, result in enumerate(results)
        for name, array in elements(result).items()
    }
    np.savez(folder / "outputs.npz", **outputs)
    (folder / "answers.json").write_text(json.dumps(answers))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
