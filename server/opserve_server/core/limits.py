"""Every bound of the core, by name; opserve_server.settings has units and defaults."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds on what clients can make the service store, do or wait for."""

    sessions_limit: int
    device_sessions_limit: int
    waiting_limit: int
    tenant_waiting_limit: int
    device_wait_limit_s: float
    waiting_return_s: float
    priority_step_s: float
    exclusive_limit_s: float
    buffers_limit: int
    executors_limit: int
    plans_limit: int
    streams_limit: int
    events_limit: int
    stream_queue_limit: int
    stream_history_limit: int
    copy_history_limit: int
    commands_per_submit_limit: int
    inline_bytes_limit: int
    submit_bytes_limit: int
    chunk_bytes: int
    lease_default_s: float
    lease_maximum_s: float
    wait_limit_s: float
    drain_quiet_s: float
    watch_limit_s: float
    watch_quiet_limit_s: float
    tenant_watches_limit: int
    uploads_bytes_limit: int
    request_ids_limit: int
    retained_bytes_limit: int
    name_length_limit: int
