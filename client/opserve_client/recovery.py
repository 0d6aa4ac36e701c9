"""How long a client goes on while its service is away, as in a restart or an upgrade."""

import random
from collections.abc import Generator, Iterator
from contextlib import contextmanager

from opserve_client.arguments import MayBeLost
from opserve_client.errors import OpserveError, is_session_lost, session_lost

RECOVERY_S = 30.0
"""A drain takes up to 10 s, and a start a few."""
FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 2.0


def pause_s(attempt: int) -> float:
    """Doubles with each attempt from 1 on, and varies so that clients do not come in step."""
    longest: float = FIRST_PAUSE_S * 2 ** (attempt - 1)
    return min(longest, LONGEST_PAUSE_S) * random.SystemRandom().uniform(0.5, 1)


def recovery_pauses_s(recovery_s: float) -> Iterator[float]:
    """Pauses between attempts that together last at least so many seconds; none for 0."""
    attempt, waited_s = 1, 0.0
    while waited_s < recovery_s:
        pause = pause_s(attempt)
        yield pause
        attempt, waited_s = attempt + 1, waited_s + pause


@contextmanager
def noting_loss(calls: MayBeLost) -> Generator[None]:
    """Notes an answer that the session is gone, and raises SessionLost in its place."""
    try:
        yield
    except OpserveError as error:
        if not is_session_lost(error):
            raise
        lost = session_lost(error.request_id, ended=error.ended)
        calls.lost = calls.lost or lost
        raise lost from error
