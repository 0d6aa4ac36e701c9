"""Runs one operator on the services in the arguments, or else on a private one.

Exits with 0 if all results are right.
"""

import sys
from collections.abc import Sequence

import numpy as np

from opserve_client import Client, Im2colBackward
from opserve_client.private_service import private_service


def main() -> int:
    """Checks the services at the given addresses; without any, a private one."""
    if sys.argv[1:]:
        return smoke(sys.argv[1:])
    with private_service(devices='["reference"]') as started:
        return smoke([started.grpc, started.rest])


def smoke(addresses: Sequence[str]) -> int:
    """Lists the devices and folds columns of ones: each pixel counts the blocks that contain it."""
    columns = np.ones((4, 4), np.float32)
    counts = np.array([[[1, 2, 1], [2, 4, 2], [1, 2, 1]]], np.float32)
    call = Im2colBackward(
        grad_output=columns,
        input_size=[3, 3],
        kernel_size=[2, 2],
        dilation=[1, 1],
        padding=[0, 0],
        stride=[1, 1],
    )
    for address in addresses:
        with Client(address) as client:
            devices = client.list_devices()
            print(address, [device.name for device in devices])
            with client.open_session(devices[0].profile) as session:
                image = session.run(call).out
        if not np.array_equal(image, counts):
            print(f"{address}: wrong image\n{image}")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
