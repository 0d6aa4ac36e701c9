"""Shared memory of a client on the service's host: copies beside memcpy, calls beside kernels."""

from collections.abc import Mapping
from statistics import median

import numpy as np

from benchmarks.measure import seconds_each
from benchmarks.rounds import Pair
from opserve_client import Im2colBackward, Session

WRITE = "mapped write of 64 MiB, MB/s | memcpy"
READ = "mapped download of 64 MiB, MB/s | memcpy into as new an array"
CALL = "16 MiB up, operator, 16 MiB down (mapped), ms | operator"
_TIMES = 5
_MIB = 1 << 20
_SIZE = 64 * _MIB
_CHANNELS, _SIDE = 64, 256


class Copies:
    """Transfers to and from a buffer, beside copies between arrays of this process."""

    def __init__(self, session: Session) -> None:
        self._data = np.random.default_rng(20261121).integers(0, 256, _SIZE, np.uint8)
        self._other = self._data.copy()
        self._tensor = session.upload(self._data)

    def measure(self) -> Mapping[str, Pair]:
        theirs = seconds_each(lambda: np.copyto(self._other, self._data), times=_TIMES)
        ours = seconds_each(lambda: self._tensor.upload(self._data), times=_TIMES)
        copied = seconds_each(self._other.copy, times=_TIMES)
        read = seconds_each(self._tensor.download, times=_TIMES)
        assert np.array_equal(self._tensor.download(), self._data)
        return {
            WRITE: Pair(subject=_rate(ours), yardstick=_rate(theirs)),
            READ: Pair(subject=_rate(read), yardstick=_rate(copied)),
        }


class Calls:
    """An operator on 16 MiB, with and without the transfers of its tensors."""

    def __init__(self, session: Session) -> None:
        shape = (_CHANNELS, _SIDE * _SIDE)
        self._columns = np.random.default_rng(20261121).standard_normal(shape, np.float32)
        self._stream = session.default_stream
        self._source = session.upload(self._columns)
        self._target = session.empty((_CHANNELS, _SIDE, _SIDE), "float32")
        planned = session.get_workspace_size(
            Im2colBackward(
                grad_output=self._source,
                input_size=[_SIDE, _SIDE],
                kernel_size=[1, 1],
                dilation=[1, 1],
                padding=[0, 0],
                stride=[1, 1],
                out=self._target,
            )
        )
        planned.executor.set_repeatable()
        self._executor = planned.executor

    def measure(self) -> Mapping[str, Pair]:
        theirs = seconds_each(self._compute, times=_TIMES)
        ours = seconds_each(self._whole, times=_TIMES)
        assert np.array_equal(self._whole().reshape(-1), self._columns.reshape(-1))
        return {CALL: Pair(subject=median(ours) * 1e3, yardstick=median(theirs) * 1e3)}

    def _whole(self) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
        self._source.upload(self._columns)
        self._compute()
        return self._target.download()

    def _compute(self) -> None:
        self._stream.execute(self._executor)
        self._stream.synchronize()


def _rate(seconds: list[float]) -> float:
    return _SIZE / 1e6 / median(seconds)
