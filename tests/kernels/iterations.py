"""A count of loop iterations, which is the same on every machine."""

import sys
from inspect import CO_GENERATOR
from types import FrameType, TracebackType
from typing import Any, Self


class Iterations:
    """Counts the iterations of Python's loops inside a `with` block.

    An iteration is a jump back in a function, or a value that a generator is asked for. Loops
    inside of functions written in C are not seen.

    Attributes:
        count: Iterations so far.
    """

    def __init__(self) -> None:
        self.count = 0
        self._places: dict[FrameType, int] = {}

    def __enter__(self) -> Self:
        self._before = sys.gettrace()
        sys.settrace(self._call)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        sys.settrace(self._before)
        self._places.clear()

    def _call(self, frame: FrameType, _event: str, _argument: object) -> Any:
        self.count += frame in self._places  # a generator that continues
        self._places[frame] = frame.f_lasti
        return self._step

    def _step(self, frame: FrameType, event: str, _argument: object) -> Any:
        if event == "line":
            self.count += frame.f_lasti <= self._places[frame]
            self._places[frame] = frame.f_lasti
        elif event == "return" and not frame.f_code.co_flags & CO_GENERATOR:
            self._places.pop(frame, None)  # that of __exit__ is gone already
        return self._step
