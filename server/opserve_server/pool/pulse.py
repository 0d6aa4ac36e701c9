"""Signs of life of a worker: it is asked for one in steady beats and may leave few unanswered.

Beats are counted, not seconds: a front that stood still itself takes no worker for silent.
"""

import asyncio
from collections.abc import Callable

BEATS_OF_A_LIMIT = 10
BEATS_MISSED_WHILE_READY = 3


class Pulse:
    """Asks one worker for signs of life until it is stopped or the worker is silent for too long.

    Args:
        silence_limit_s: Seconds of silence that are too long.
        ask: Asks for a sign of life.
        on_silence: Told once that the worker is silent for too long.
    """

    def __init__(
        self, *, silence_limit_s: float, ask: Callable[[], None], on_silence: Callable[[], None]
    ) -> None:
        self._interval_s = silence_limit_s / BEATS_OF_A_LIMIT
        self._ask = ask
        self._on_silence = on_silence
        self._unanswered = 0
        self._beat()

    @property
    def steady(self) -> bool:
        """Whether the worker was heard lately."""
        return self._unanswered <= BEATS_MISSED_WHILE_READY

    def heard(self) -> None:
        """Takes what the worker said, whatever it was, as a sign of life."""
        self._unanswered = 0

    def stop(self) -> None:
        """Asks no more."""
        self._timer.cancel()

    def _beat(self) -> None:
        if self._unanswered == BEATS_OF_A_LIMIT:
            self._on_silence()
            return
        self._unanswered += 1
        self._timer = asyncio.get_running_loop().call_later(self._interval_s, self._beat)
        self._ask()
