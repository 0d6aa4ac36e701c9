"""The Connect API: the services of the gRPC API on the HTTP port.

The protocol: https://connectrpc.com/docs/protocol
"""
