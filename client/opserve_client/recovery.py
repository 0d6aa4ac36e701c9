"""Pauses and time limits of retries while a service is unreachable, as in a restart."""

import random
from collections.abc import Generator, Iterator
from contextlib import contextmanager

from opserve_client.arguments import SessionState
from opserve_client.errors import OpserveError, is_session_lost, session_lost

RECOVERY_S = 30.0
"""Default of `Client(recovery_s=)`: a drain takes up to 10 s, and a start a few seconds."""
FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 2.0


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


@contextmanager
def recording_loss(calls: SessionState) -> Generator[None]:
    """Turns the answer that a session does not exist into SessionLost, and records the first one.

    The first one stays: it has the reason for the end, which later answers may lack.
    """
    try:
        yield
    except OpserveError as error:
        if not is_session_lost(error):
            raise
        lost = session_lost(error.request_id, ended=error.ended)
        calls.lost = calls.lost or lost
        raise lost from error
