"""gRPC channels for threads; channels_async is the counterpart."""

import grpc

from opserve_client.access import Access
from opserve_client.wire.channels import CHANNEL_OPTIONS, READING_OPTIONS, Options, credentials


def open_channels(target: str, access: Access | None) -> tuple[grpc.Channel, grpc.Channel]:
    """A gRPC channel for calls, and one for bytes that are read; they share a connection.

    They connect by themselves when they are used.
    """
    return _channel(target, access, CHANNEL_OPTIONS), _channel(target, access, READING_OPTIONS)


def _channel(target: str, access: Access | None, options: Options) -> grpc.Channel:
    if access is None or not access.secure:
        return grpc.insecure_channel(target, options=options)
    return grpc.secure_channel(target, credentials(access.tls), options=options)
