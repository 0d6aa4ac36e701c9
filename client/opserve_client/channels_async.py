"""gRPC channels for asyncio; channels_blocking is the counterpart."""

import grpc

from opserve_client.access import Access
from opserve_client.wire.channels import CHANNEL_OPTIONS, credentials


def open_channels(target: str, access: Access | None) -> tuple[grpc.aio.Channel, grpc.aio.Channel]:
    """A gRPC channel for calls, which is also the one for bytes that are read.

    It connects by itself when it is used.
    """
    if access is None or not access.secure:
        channel = grpc.aio.insecure_channel(target, options=CHANNEL_OPTIONS)
    else:
        channel = grpc.aio.secure_channel(target, credentials(access.tls), options=CHANNEL_OPTIONS)
    return channel, channel
