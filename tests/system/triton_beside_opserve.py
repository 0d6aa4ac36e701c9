"""A program of opserve's client and Triton's in one process: the same bytes, over both wires.

Its arguments are the addresses of the gRPC API and of the HTTP port. It prints each wire.
"""

import sys
from importlib import import_module

import numpy as np

from opserve_client import Client, Im2colBackward

ATTRIBUTES = {"kernel_size": [2, 2], "dilation": [1, 1], "padding": [0, 0], "stride": [1, 1]}


def main(addresses):
    columns = np.random.default_rng(7).standard_normal((2, 4, 9)).astype(np.float32)
    for wire, address in addresses.items():
        url = address if wire == "grpc" else f"http://{address}"
        with Client(url) as client, client.open_session() as session:
            right = session.run(
                Im2colBackward(grad_output=columns, input_size=[4, 4], **ATTRIBUTES)
            ).out
        triton = import_module(f"tritonclient.{wire}")
        tensor = triton.InferInput("grad_output", columns.shape, "FP32")
        tensor.set_data_from_numpy(columns)
        texts = {name: str(value) for name, value in ATTRIBUTES.items()}
        with triton.InferenceServerClient(address) as client:
            answer = client.infer(
                "aclnnIm2colBackward", [tensor], parameters={"input_size": "[4,4]", **texts}
            )
        assert answer.as_numpy("out").tobytes() == right.tobytes()
        sys.stdout.write(f"{wire}\n")


if __name__ == "__main__":
    main({"grpc": sys.argv[1], "http": sys.argv[2]})
