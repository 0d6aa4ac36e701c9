"""How the client's gRPC channels behave."""

from typing import Final

CHANNEL_OPTIONS: Final = (
    # A service that was away is dialled again within a second, so that a retry can find it.
    ("grpc.initial_reconnect_backoff_ms", 100),
    # Despite its name, how long an attempt to connect may take.
    ("grpc.min_reconnect_backoff_ms", 20_000),
    ("grpc.max_reconnect_backoff_ms", 1000),
)
