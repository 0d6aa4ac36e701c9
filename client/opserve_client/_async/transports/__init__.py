"""How calls reach a service: over gRPC, over Connect, or in memory."""
