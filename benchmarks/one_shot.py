"""One-shot calls by the form of REST: multipart in, .npz out."""

import io
import json

import numpy as np

from benchmarks.small_call import BYTES, COLUMNS, IMAGE
from opserve_client.wire.http_messages import Request

_COLUMNS = np.arange(BYTES // 4, dtype=np.float32).reshape(COLUMNS)


def one_shot_request(*, api_key: str = "") -> Request:
    """Returns a fold of 1 KiB, which copies; the key is empty for a service without keys."""
    arguments = {
        "grad_output": {"array": "columns"},
        "input_size": IMAGE[1:],
        "kernel_size": [1, 1],
        "dilation": [1, 1],
        "padding": [0, 0],
        "stride": [1, 1],
    }
    archive = io.BytesIO()
    np.savez(archive, columns=_COLUMNS)
    parts = {
        "args": json.dumps({"profile": "ascend910b", "arguments": arguments}).encode(),
        "tensors": archive.getvalue(),
    }
    body = b"".join(
        b'--x\r\nContent-Disposition: form-data; name="%s"; filename="f"\r\n\r\n%s\r\n'
        % (name.encode(), data)
        for name, data in parts.items()
    )
    authorization = (("Authorization", f"Bearer {api_key}"),) if api_key else ()
    fields = (("Content-Type", "multipart/form-data; boundary=x"), *authorization)
    path = "/v1/operators/aclnnIm2colBackward:run"
    return Request("POST", path, fields, body + b"--x--\r\n")


def check_answer(archive: bytes) -> None:
    """Checks that the output has the values of the input."""
    (out,) = np.load(io.BytesIO(archive)).values()
    assert np.array_equal(out.reshape(COLUMNS), _COLUMNS), "a wrong answer"
