"""Options of the client's gRPC channels, and their credentials for TLS."""

from pathlib import Path
from typing import Final, TypeAlias

import grpc

from opserve_client.access import TlsFiles, unusable

Options: TypeAlias = tuple[tuple[str, int], ...]

CHANNEL_OPTIONS: Final[Options] = (
    # A service that was away is dialled again within a second, so that a retry can find it.
    ("grpc.initial_reconnect_backoff_ms", 100),
    # Despite its name, how long an attempt to connect may take.
    ("grpc.min_reconnect_backoff_ms", 20_000),
    ("grpc.max_reconnect_backoff_ms", 1000),
)
READING_OPTIONS: Final[Options] = (
    *CHANNEL_OPTIONS,
    # grpc.experimental's: whoever reads an answer's stream does all of the work for it, which
    # otherwise goes from thread to thread for each chunk. A stream that is given up leaves some
    # 20 KB until its channel is closed, so this is for streams that are read to their end.
    ("SingleThreadedUnaryStream", 1),
)


def credentials(tls: TlsFiles) -> grpc.ChannelCredentials:
    """Credentials from files.

    Raises:
        AclrtError: 107000, a file cannot be read.
    """
    files = (tls.ca, tls.key, tls.certificate)
    try:
        ca, key, chain = (None if file is None else Path(file).read_bytes() for file in files)
    except OSError as error:
        raise unusable(tls, error) from error
    return grpc.ssl_channel_credentials(ca, key, chain)
