"""What the service tells of itself: metrics, logs and traces, made from its observations."""
