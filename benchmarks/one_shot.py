"""One-shot calls of 1 KiB: by the form of REST, multipart in and .npz out, and by Connect.

The answers contain the bytes of the input, DATA.
"""

import io
import json

import numpy as np

from benchmarks.small_call import COLUMNS, DATA, IMAGE
from opserve.v1.im2col_backward_pb2 import Im2colBackward
from opserve.v1.operator_service_pb2 import (
    GetWorkspaceSizeRequest,
    RunRequest,
    TensorData,
)
from opserve.v1.session_service_pb2 import OpenSessionRequest
from opserve.v1.tensor_pb2 import DATA_TYPE_FLOAT, FORMAT_ND, Int64Array, Tensor
from opserve_client.wire.http_messages import Request
from opserve_client.wire.methods import RUN


def rest_request(*, api_key: str = "") -> Request:
    """Returns a fold, which copies; the key is empty for a service without keys."""
    arguments = {
        "grad_output": {"array": "columns"},
        "input_size": IMAGE[1:],
        "kernel_size": [1, 1],
        "dilation": [1, 1],
        "padding": [0, 0],
        "stride": [1, 1],
    }
    archive = io.BytesIO()
    np.savez(archive, columns=np.frombuffer(DATA, np.float32).reshape(COLUMNS))
    parts = {
        "args": json.dumps({"profile": "ascend910b", "arguments": arguments}).encode(),
        "tensors": archive.getvalue(),
    }
    body = b"".join(
        b'--x\r\nContent-Disposition: form-data; name="%s"; filename="f"\r\n\r\n%s\r\n'
        % (name.encode(), data)
        for name, data in parts.items()
    )
    fields = (("Content-Type", "multipart/form-data; boundary=x"), *_authorization(api_key))
    path = "/v1/operators/aclnnIm2colBackward:run"
    return Request("POST", path, fields, body + b"--x--\r\n")


def run_request() -> RunRequest:
    """Returns the same call as a message of the RPC Run without a session."""
    unit = Int64Array(values=[1, 1])
    fold = Im2colBackward(
        grad_output=Tensor(shape=COLUMNS, dtype=DATA_TYPE_FLOAT, format=FORMAT_ND),
        input_size=Int64Array(values=IMAGE[1:]),
        kernel_size=unit,
        dilation=unit,
        padding=Int64Array(values=[0, 0]),
        stride=unit,
        out=Tensor(shape=IMAGE, dtype=DATA_TYPE_FLOAT, format=FORMAT_ND),
    )
    return RunRequest(
        plan=GetWorkspaceSizeRequest(im2col_backward=fold),
        inputs=[TensorData(index=0, data=DATA)],
        open=OpenSessionRequest(profile="ascend910b"),
    )


def connect_request(*, api_key: str = "") -> Request:
    """Returns the same call over Connect."""
    fields = (("Content-Type", "application/proto"), *_authorization(api_key))
    return Request("POST", RUN.path, fields, run_request().SerializeToString())


def _authorization(api_key: str) -> tuple[tuple[str, str], ...]:
    return (("Authorization", f"Bearer {api_key}"),) if api_key else ()
