"""Telemetry of the service: metrics, logs and traces, made from observations."""
