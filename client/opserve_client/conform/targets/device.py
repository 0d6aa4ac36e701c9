"""Devices of an opserve service as a target: "opserve" or "opserve:HOST:PORT/profile"."""

import time
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import TypeVar

from opserve_client._sync.client import Client
from opserve_client._sync.session import Session
from opserve_client.arguments import AccuracyName, DocumentedRulesName
from opserve_client.conform.on_device import plan_on, run_on
from opserve_client.conform.targets.target import InfrastructureError
from opserve_client.errors import OpserveError, ServiceUnreachable, SessionLost, is_transient
from opserve_client.recovery import RECOVERY_S, UNREACHABLE_ATTEMPTS, recovery_pauses_s
from opserve_kernels.cases.case import Case
from opserve_kernels.conformance.target import Missing, Outcome
from opserve_kernels.errors import rejection
from opserve_kernels.status import Status
from opserve_kernels.verdict.judge_case import Arrays

ResultT = TypeVar("ResultT")
_REPORTED_ATTEMPT = 2  # a lost session is opened again by the second attempt, without a wait


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionOptions:
    """Options of sessions, with the same defaults as Client.open_session.

    Attributes:
        accuracy: Error bound of results.
        documented_rules: Answer to a call that breaks a rule of the vendor's page alone.
    """

    accuracy: AccuracyName = "direct"
    documented_rules: DocumentedRulesName = "error"


OnWait = Callable[[str], object]
"""Called with the error when the service does not answer a second time in a row."""


def silent(_: str) -> None:
    """Reports nothing."""


class Sessions:
    """One session for each profile in use.

    Args:
        client: Client of the service; closed with the sessions.
        options: Options of all sessions.
        on_wait: Called once for each wait for the service.
        sleep: Waits between attempts, in seconds.
    """

    def __init__(
        self,
        client: Client,
        options: SessionOptions,
        *,
        on_wait: OnWait = silent,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        self._client, self._options = client, options
        self._on_wait, self._sleep = on_wait, sleep
        self._open: dict[str, Session] = {}

    def run(self, profile: str, work: Callable[[Session], ResultT]) -> ResultT:
        """Runs work in a session; repeats it, in a new one if necessary, after a transient error.

        Args:
            profile: Profile of the device.
            work: Work that needs no object of earlier work.
        """
        pauses = recovery_pauses_s(RECOVERY_S)
        for attempt in count(1):
            try:
                return work(self.on(profile))
            except OpserveError as error:
                pause_s = next(pauses, None) if is_transient(error) else None
                if pause_s is None:
                    raise
                if attempt == _REPORTED_ATTEMPT:
                    self._on_wait(str(error))
                if profile in self._open and _is_lost(error, self._open[profile], attempt):
                    with suppress(
                        OpserveError
                    ):  # a session that cannot be closed ends by its lease
                        self._open.pop(profile).close()
            self._sleep(pause_s)
        raise AssertionError("attempts are not limited")

    def on(self, profile: str) -> Session:
        """Returns the session on a device of a profile; opens it at the first use."""
        if profile not in self._open:
            options = self._options
            opened = self._client.open_session(
                profile, accuracy=options.accuracy, documented_rules=options.documented_rules
            )
            self._open[profile] = opened.__enter__()
        return self._open[profile]

    def close(self) -> None:
        """Closes the sessions and the client."""
        while self._open:
            self._open.popitem()[1].close()
        self._client.close()


class DeviceTarget:
    """Devices of a service as a target.

    Args:
        client: Client of the service; closed with the target.
        profile: Profile of the cases to run; "" means all.
        options: Options of the sessions.
        on_wait: Called once for each wait for the service.

    Raises:
        InfrastructureError: The service has no device of the profile, or does not answer.
    """

    def __init__(
        self,
        client: Client,
        profile: str,
        options: SessionOptions,
        *,
        on_wait: OnWait = silent,
    ) -> None:
        self._sessions = Sessions(client, options, on_wait=on_wait)
        self._profile = profile
        if profile:
            _check_profile(client, profile)

    def skips(self, case: Case) -> str:
        """Returns "": a device skips no case."""
        del case
        return ""

    async def run(self, case: Case, before: Arrays, *, read: Collection[str]) -> Outcome:
        """Runs a case on a device of the case's profile.

        Raises:
            InfrastructureError: The service failed or is unreachable.
        """
        if self._profile and case.profile != self._profile:
            return Missing(reason=f"the target runs only cases of {self._profile}")
        try:
            if case.is_refused:
                return self._sessions.run(case.profile, partial(plan_on, case=case))
            work = partial(run_on, case=case, storages=before, read=read)
            return self._sessions.run(case.profile, work)
        except OpserveError as error:
            if error.code == Status.ACL_ERROR_RT_INVALID_DEVICEID:
                return Missing(reason=error.message)
            raise InfrastructureError(f"{case.id}: {error}") from error

    def close(self) -> None:
        """Closes the sessions."""
        self._sessions.close()


def _is_lost(error: OpserveError, session: Session, attempt: int) -> bool:
    """Whether the next attempt needs a new session, at another service if its own is lost."""
    is_unreachable = isinstance(error, ServiceUnreachable) and attempt >= UNREACHABLE_ATTEMPTS
    return isinstance(error, SessionLost) or (is_unreachable and session.has_other_services)


def _check_profile(client: Client, profile: str) -> None:
    """Rejects a profile that the service does not have: a misspelt one would match no case."""
    try:
        served = {one.profile: None for one in client.list_devices()}
    except OpserveError as error:
        raise InfrastructureError(f"target: {error}") from error
    if profile not in served:
        raise InfrastructureError(
            rejection("target", given=f"profile {profile}", allowed=", ".join(served))
        )
