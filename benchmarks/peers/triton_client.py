"""A client of Triton, which runs in the environment of the peers."""

import atexit
import os
import sys
from importlib import import_module
from typing import Any

from benchmarks.peers.driver import Call, drive
from benchmarks.peers.sizes import LARGE_BYTES, SMALL_BYTES

# Packages of the environment of the peers, without types.
np: Any = import_module("numpy")
grpc: Any = import_module("grpc")
over_grpc: Any = import_module("tritonclient.grpc")
over_http: Any = import_module("tritonclient.http")
regions: Any = import_module("tritonclient.utils.shared_memory")

_INFER = "/inference.GRPCInferenceService/ModelInfer"
_FLOAT_BYTES = 4


def main() -> None:
    """Answers requests; the arguments are the gRPC address and the HTTP URL of a server."""
    grpc_address, http_url = sys.argv[1:]
    http_address = http_url.removeprefix("http://")
    drive(
        {
            "client": lambda: _client(over_grpc, grpc_address, SMALL_BYTES),
            "raw": lambda: _raw(grpc_address),
            "16 MiB over gRPC": lambda: _client(over_grpc, grpc_address, LARGE_BYTES),
            "16 MiB over HTTP": lambda: _client(over_http, http_address, LARGE_BYTES),
            "16 MiB by shared memory": lambda: _shared(grpc_address),
        }
    )


def _client(library: Any, address: str, size_bytes: int) -> Call:  # noqa: ANN401
    """A call from array to array by Triton's client."""
    client = library.InferenceServerClient(address)
    array = np.arange(size_bytes // _FLOAT_BYTES, dtype=np.float32)

    def call() -> None:
        given = library.InferInput("INPUT", [array.size], "FP32")
        given.set_data_from_numpy(array)
        found = client.infer("identity", [given]).as_numpy("OUTPUT")
        assert found[-1] == array[-1]

    return call


def _raw(address: str) -> Call:
    """A call of a message that exists."""
    messages: Any = over_grpc.service_pb2
    array = np.arange(SMALL_BYTES // _FLOAT_BYTES, dtype=np.float32)
    request = messages.ModelInferRequest(
        model_name="identity", raw_input_contents=[array.tobytes()]
    )
    request.inputs.add(name="INPUT", datatype="FP32", shape=[array.size])
    request.outputs.add(name="OUTPUT")
    stub = grpc.insecure_channel(address).unary_unary(
        _INFER,
        messages.ModelInferRequest.SerializeToString,
        messages.ModelInferResponse.FromString,
    )

    def call() -> None:
        assert stub(request).raw_output_contents[0] == request.raw_input_contents[0]

    return call


def _shared(address: str) -> Call:
    """A call from array to array through shared memory of the system."""
    client = over_grpc.InferenceServerClient(address)
    array = np.arange(LARGE_BYTES // _FLOAT_BYTES, dtype=np.float32)
    given = over_grpc.InferInput("INPUT", [array.size], "FP32")
    mapped: dict[str, Any] = {}
    for name in ("given", "found"):
        key = f"/opserve-bench-{os.getpid()}-{name}"
        mapped[name] = regions.create_shared_memory_region(name, key, LARGE_BYTES)
        atexit.register(regions.destroy_shared_memory_region, mapped[name])
        client.register_system_shared_memory(name, key, LARGE_BYTES)
    given.set_shared_memory("given", LARGE_BYTES)
    wanted = over_grpc.InferRequestedOutput("OUTPUT")
    wanted.set_shared_memory("found", LARGE_BYTES)

    def call() -> None:
        regions.set_shared_memory_region(mapped["given"], [array])
        client.infer("identity", [given], outputs=[wanted])
        found = regions.get_contents_as_numpy(mapped["found"], np.float32, array.shape).copy()
        assert found[-1] == array[-1]

    return call


if __name__ == "__main__":
    main()
