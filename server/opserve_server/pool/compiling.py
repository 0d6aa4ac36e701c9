"""Parallel compilation of kernel modules, each after the modules that it imports."""

from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from graphlib import TopologicalSorter
from importlib import import_module
from multiprocessing import get_context

from opserve_server.pool.machine import cpu_count
from opserve_server.pool.parent_watch import exit_with_parent

_MODULES_EACH = 8  # per process: loading numba takes as long as compiling one


def compiled(needs: Mapping[str, Collection[str]]) -> Iterator[str]:
    """Compiles or loads modules; yields each once it is cached.

    Args:
        needs: The modules, each with the others that it imports.

    Raises:
        OSError: They cannot be cached.
    """
    count = min(cpu_count(), -(-len(needs) // _MODULES_EACH))
    order = TopologicalSorter(needs)
    order.prepare()
    running: dict[Future[None], str] = {}
    pool = ProcessPoolExecutor(count, get_context("spawn"), initializer=exit_with_parent)
    try:
        while order.is_active():
            running |= {pool.submit(_load, module): module for module in order.get_ready()}
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                future.result()
                module = running.pop(future)
                order.done(module)
                yield module
    finally:
        pool.shutdown(cancel_futures=True)


def _load(module: str) -> None:
    import_module(module)
