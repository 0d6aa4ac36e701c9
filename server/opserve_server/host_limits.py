"""Settings beside what the machine, or the container, has: fewer threads, and memory that fits."""

import logging

from opserve_server.pool.machine import cpu_count, memory_limit_bytes
from opserve_server.settings import SettingRefused, Settings, where_set

log = logging.getLogger(__name__)


def within_host_limits(settings: Settings) -> Settings:
    """The settings with no more threads and processes than there are processors.

    Raises:
        SettingRefused: One device alone has more memory than the container allows.
    """
    _check_memory(settings)
    cpus = cpu_count()
    fewer = {
        name: cpus
        for name in ("device_threads", "conformance_processes")
        if getattr(settings, name) > cpus
    }
    for name in fewer:
        given = getattr(settings, name)
        log.warning("%s: given %d, lowered to the %d processors there are", name, given, cpus)
    return settings.model_copy(update=fewer)


def _check_memory(settings: Settings) -> None:
    """Memory is taken as it is used, so devices may share what none of them exceeds alone."""
    limit = memory_limit_bytes()
    if limit is None:
        return
    each, count = settings.device_memory_bytes, len(settings.devices)
    if each > limit:
        raise SettingRefused(
            f"device_memory_bytes: given {each}, allowed {limit}, the memory limit of the "
            f"container; set by {where_set('device_memory_bytes')}"
        )
    if each * count > limit:
        log.warning(
            "device_memory_bytes: %d devices with %d bytes each need %d, and the container allows "
            "%d: the kernel ends the service once they use it; lower %s, or the number of devices",
            count,
            each,
            each * count,
            limit,
            where_set("device_memory_bytes"),
        )
