"""The fork server loads kernels while the front still imports its modules."""

from multiprocessing import forkserver

from opserve_kernels.loop_cache import are_compiled
from opserve_kernels.registry import kernels_of_all
from opserve_server.pool.process import interrupts_blocked, preload
from opserve_server.settings import SettingRefused, settings_of_environment


def begin_loading_kernels() -> None:
    """Starts the fork server, unless kernels have to be compiled first.

    A rejected setting is left to the front, which reports it.
    """
    try:
        kernels = kernels_of_all(settings_of_environment().devices)
    except SettingRefused:
        return
    if are_compiled(kernels):
        preload(kernels)
        with interrupts_blocked():
            forkserver.ensure_running()
