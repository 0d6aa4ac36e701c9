"""A program of `test_previous_release.py`: what a client does that was written for some release.

It runs with the client of either release, and ends with "passed" and the folder of that client.
"""

import io
import sys

import httpx2
import numpy as np
import pytest

import opserve_client
from opserve_client import Client, ConvolutionBackward, Im2colBackward, OpserveError

RUN = "/v1/operators/aclnnIm2colBackward:run"
ARGS = (
    '{"profile": "ascend910b", "arguments": {"grad_output": {"array": "columns"}, '
    '"input_size": [3, 3], "kernel_size": [2, 2], "dilation": [1, 1], "padding": [0, 0], '
    '"stride": [1, 1]}}'
)
IMAGE = [[[1, 2, 1], [2, 4, 2], [1, 2, 1]]]
"""Ones of four overlapping 2x2 blocks in a 3x3 image."""


def main(rest: str, *addresses: str) -> None:
    """Opens sessions, runs calls in one and in two phases, and requests a verdict.

    Args:
        rest: The REST API, for a whole call in one request.
        addresses: Addresses of the service that the client can call.
    """
    for address in addresses:
        with Client(address) as client:
            with client.open_session("ascend910b") as session:
                session.set_deterministic_level("deterministic")
                for edge in (8, 96):  # in one round trip, and by streams
                    grads = session.run(convolution(edge))
                    assert grads.grad_bias is not None
                    np.testing.assert_array_equal(grads.grad_bias, [edge * edge] * 4)
                two_phases(session)
                refusal(session)
            verdict(client)
    one_shot(rest)


def convolution(edge: int) -> ConvolutionBackward:
    """Ones, whose gradients are counts."""
    ones = np.ones
    return ConvolutionBackward(
        grad_output=ones((1, 4, edge, edge), np.float32),
        input=ones((1, 3, edge, edge), np.float32),
        weight=ones((4, 3, 3, 3), np.float32),
        bias_sizes=[4],
        stride=[1, 1],
        padding=[1, 1],
        dilation=[1, 1],
        transposed=False,
        output_padding=[0, 0],
        groups=1,
        output_mask=[True, True, True],
        cube_math_type=0,
    )


def two_phases(session: "opserve_client.Session") -> None:
    """Tensors on the device, a plan, its workspace, a stream."""
    columns, out = session.upload(np.ones((4, 4), np.float32)), session.empty((1, 3, 3), "FLOAT")
    plan = session.get_workspace_size(im2col(columns, out=out))
    workspace = session.allocate(plan.workspace_size) if plan.workspace_size else None
    session.default_stream.execute(plan.executor, workspace)
    session.default_stream.synchronize()
    assert out.download().tolist() == IMAGE


def im2col(columns: object, **more: object) -> Im2colBackward:
    """Four overlapping 2x2 blocks."""
    sizes = {"input_size": [3, 3], "kernel_size": [2, 2], "dilation": [1, 1], "padding": [0, 0]}
    return Im2colBackward(grad_output=columns, stride=[1, 1], **sizes, **more)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def refusal(session: "opserve_client.Session") -> None:
    """An error with the vendor's code."""
    with pytest.raises(OpserveError, match="161002"):
        session.run(im2col(np.ones((3, 4), np.float32)))


def verdict(client: Client) -> None:
    """A case's golden values pass, and twice them do not."""
    case, *_ = client.conformance.list_cases("smoke", operator="im2col_backward")
    right = client.conformance.get_golden(case.id, suite="smoke")["values.out"].astype(np.float32)
    for factor, status in ((1, "PASSED"), (2, "FAILED")):
        found = client.conformance.verify(case.id, {"out": right * factor}, suite="smoke")
        assert found.status == status, found


def one_shot(rest: str) -> None:
    """A whole call in one request."""
    with io.BytesIO() as packed:
        np.savez(packed, columns=np.ones((4, 4), np.float32))
        tensors = packed.getvalue()
    files = {"args": ("args.json", ARGS.encode()), "tensors": ("in.npz", tensors)}
    answer = httpx2.post(f"{rest}{RUN}", files=files, timeout=120)
    answer.raise_for_status()
    with np.load(io.BytesIO(answer.content)) as arrays:
        assert arrays["out"].tolist() == IMAGE


if __name__ == "__main__":
    main(*sys.argv[1:])
    sys.stdout.write(f"passed {opserve_client.__file__}\n")
