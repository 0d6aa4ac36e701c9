"""The gRPC face of the service."""
