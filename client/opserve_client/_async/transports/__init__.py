"""How calls reach a service: over gRPC, over REST, or in memory."""
