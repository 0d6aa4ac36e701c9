"""How the client's gRPC channels behave."""

from typing import Final

CHANNEL_OPTIONS: Final = (
    # A service that was away is dialled again within a second, so that a retry can find it.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
)
