"""Limits of the machine or container: adapts the numbers of threads, checks the memory."""

import logging

from opserve_server.pool.machine import cpu_count, memory_limit_bytes
from opserve_server.settings import SettingRefused, Settings, where_set

log = logging.getLogger(__name__)


def within_host_limits(settings: Settings) -> Settings:
    """The settings with at most as many threads and processes as processors.

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
        log.warning("%s: given %d, lowered to the %d available processors", name, given, cpus)
    return settings.model_copy(update=fewer)


def _check_memory(settings: Settings) -> None:
    """Memory is used on demand, so several devices may together exceed the limit."""
    limit = memory_limit_bytes()
    if limit is None:
        return
    each, count = settings.device_memory_bytes, len(settings.devices)
    if each > limit:
        raise SettingRefused(
            f"device_memory_bytes is {each}, above the memory limit of the container, {limit}: "
            f"lower it by {where_set('device_memory_bytes')}."
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
