"""Pauses and time limits of retries: of an unreachable service, and at the tenant's call rate."""

import random
from collections.abc import Iterator
from types import TracebackType

from opserve_client.arguments import SessionState
from opserve_client.errors import OpserveError, QuotaExceeded, is_session_lost, session_lost

RECOVERY_S = 30.0
"""Default of `Client(recovery_s=)`: a drain takes up to 10 s, and a start a few seconds."""
FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 2.0
UNREACHABLE_ATTEMPTS = 2
"""Attempts that find a service of a farm unreachable before a call goes on at another one."""
RATE_PAUSE_LIMIT_S = 1.0
"""Longest `retry_after_s` of a rejection by the call rate that the client waits out."""
RATE_WAITS_LIMIT_S = 30.0
"""Longest wait of one call for the call rate, over all attempts: a lease by default."""
_SHORTEST_RATE_PAUSE_S = 0.001


def pause_s(attempt: int) -> float:
    """Returns the pause after an attempt, counted from 1: it doubles up to a limit.

    The random factor spreads the clients of a restarted service, which all lost it at once.
    """
    longest: float = FIRST_PAUSE_S * 2 ** (attempt - 1)
    return min(longest, LONGEST_PAUSE_S) * random.SystemRandom().uniform(0.5, 1)


def recovery_pauses_s(recovery_s: float) -> Iterator[float]:
    """Yields pauses in seconds whose sum reaches recovery_s; none for 0."""
    attempt, waited_s = 1, 0.0
    while waited_s < recovery_s:
        pause = pause_s(attempt)
        yield pause
        attempt, waited_s = attempt + 1, waited_s + pause


class RateWaits:
    """Waits of one call that its tenant's call rate (`calls_per_s`) rejects; its work never began.

    Args:
        limit_s: Time limit of the call in seconds.

    Attributes:
        left_s: Seconds that are left of it.
    """

    def __init__(self, limit_s: float) -> None:
        self.left_s = limit_s
        self._waits_left_s = RATE_WAITS_LIMIT_S
        self._shortest_s = _SHORTEST_RATE_PAUSE_S

    def next_pause_s(self, error: QuotaExceeded) -> float:
        """Returns the pause before the next attempt; raises the error if no attempt may follow."""
        is_short = error.limit > 0 and error.retry_after_s <= RATE_PAUSE_LIMIT_S
        # Other calls of the tenant may take each free place first: the shortest pause doubles, so
        # that an overtaken call does not send one attempt after the other.
        pause_s = max(error.retry_after_s, self._shortest_s)
        is_in_time = pause_s < min(self.left_s, self._waits_left_s)
        if error.parameter != "calls_per_s" or not (is_short and is_in_time):
            raise error
        self._shortest_s = min(2 * self._shortest_s, RATE_PAUSE_LIMIT_S)
        self.left_s -= pause_s
        self._waits_left_s -= pause_s
        return pause_s


class RecordingLoss:
    """Turns the answer that a session does not exist into SessionLost, and records the first one.

    The first one stays: it has the reason for the end, which later answers may lack.

    Args:
        calls: The calls of the session.
    """

    __slots__ = ("_calls",)  # not @contextmanager, which takes as long as the rest of a call's path

    def __init__(self, calls: SessionState) -> None:
        self._calls = calls

    def __enter__(self) -> None:
        """Begins."""

    def __exit__(
        self,
        _: type[BaseException] | None,
        error: BaseException | None,
        __: TracebackType | None,
    ) -> None:
        if isinstance(error, OpserveError) and is_session_lost(error):
            lost = session_lost(error.request_id, ended=error.ended)
            self._calls.lost = self._calls.lost or lost
            raise lost from error
