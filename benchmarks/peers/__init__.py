"""opserve beside Triton and bare servers: make bench-peers."""
