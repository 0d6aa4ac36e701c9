"""Small calls of the SDK over HTTP beside a bare gRPC echo of as many bytes."""

from collections.abc import Mapping

import numpy as np

from benchmarks.bare import Bare
from benchmarks.measure import percentile, seconds_each
from benchmarks.rounds import Pair
from benchmarks.small_call import BYTES, COLUMNS, IMAGE, fold
from opserve_client import Executor, Session

CALLS = 300
SDK_PLAN = "GetWorkspaceSize by the SDK over HTTP p50, ms | gRPC echo of its bytes"
SDK_RUN = "session.run of 1 KiB over HTTP p50, ms | gRPC echo of its bytes"
_REQUEST_BYTES = 200
"""Size of a request of phase one."""


class SdkCalls:
    """Phase one on tensors, and whole calls on arrays.

    Args:
        session: A session over HTTP.
        bare: The yardstick.
    """

    def __init__(self, session: Session, bare: Bare) -> None:
        columns = np.ones(COLUMNS, np.float32)
        image = session.empty(IMAGE, np.float32)
        self._session = session
        self._bare = bare
        self._whole = fold(columns, None)
        self._planned = fold(session.upload(columns), image)

    def measure(self) -> Mapping[str, Pair]:
        planned: list[Executor] = []

        def plan() -> None:
            planned.append(self._session.get_workspace_size(self._planned).executor)

        small, large = bytes(_REQUEST_BYTES), bytes(BYTES)
        theirs = seconds_each(lambda: self._bare.echo(small), times=CALLS)
        plans = seconds_each(plan, times=CALLS)
        echoes = seconds_each(lambda: self._bare.echo(large), times=CALLS)
        runs = seconds_each(lambda: self._session.run(self._whole), times=CALLS)
        for executor in planned:
            executor.destroy()
        return {
            SDK_PLAN: Pair(
                subject=percentile(plans, 50) * 1e3, yardstick=percentile(theirs, 50) * 1e3
            ),
            SDK_RUN: Pair(
                subject=percentile(runs, 50) * 1e3, yardstick=percentile(echoes, 50) * 1e3
            ),
        }
