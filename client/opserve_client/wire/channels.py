"""Options of the client's gRPC channels, and their credentials for TLS."""

from pathlib import Path
from typing import Final, TypeAlias

import grpc

from opserve_client.access import TlsFiles, unusable

Options: TypeAlias = tuple[tuple[str, int], ...]

CHANNEL_OPTIONS: Final[Options] = (
    # Reconnect within a second, so that a retry reaches a restarted service.
    ("grpc.initial_reconnect_backoff_ms", 100),
    # Despite its name, this is the time limit of an attempt to connect.
    ("grpc.min_reconnect_backoff_ms", 20_000),
    ("grpc.max_reconnect_backoff_ms", 1000),
)
READING_OPTIONS: Final[Options] = (
    *CHANNEL_OPTIONS,
    # From grpc.experimental: the reading thread does all work of the stream. Without the option,
    # each chunk changes threads. An abandoned stream keeps about 20 KB until its channel is closed,
    # so only streams that are read to their end use this channel.
    ("SingleThreadedUnaryStream", 1),
)


def credentials(tls: TlsFiles) -> grpc.ChannelCredentials:
    """Returns the gRPC credentials from certificate files.

    Raises:
        AclrtError: 107000, a file cannot be read.
    """
    files = (tls.ca, tls.key, tls.certificate)
    try:
        ca, key, chain = (None if file is None else Path(file).read_bytes() for file in files)
    except OSError as error:
        raise unusable(tls, error) from error
    return grpc.ssl_channel_credentials(ca, key, chain)
