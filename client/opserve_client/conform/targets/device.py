"""A device of an opserve service as a target: "opserve" or "opserve:HOST:PORT/profile"."""

import time
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from opserve_client._sync.client import Client
from opserve_client._sync.session import Session
from opserve_client.arguments import AccuracyName, DocumentedRulesName
from opserve_client.conform.on_device import plan_on, run_on
from opserve_client.conform.targets.target import InfrastructureError
from opserve_client.errors import OpserveError, SessionLost, may_pass
from opserve_client.recovery import RECOVERY_S, recovery_pauses_s
from opserve_kernels.cases.case import Case
from opserve_kernels.conformance.target import Missing, Outcome
from opserve_kernels.status import Status
from opserve_kernels.verdict.judge_case import Arrays

ResultT = TypeVar("ResultT")


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """Terms of sessions; by default those of a session that is opened without any.

    Attributes:
        accuracy: Error bound of results.
        documented_rules: Answer to a call that breaks a rule of the vendor's page alone.
    """

    accuracy: AccuracyName = "direct"
    documented_rules: DocumentedRulesName = "error"


class Sessions:
    """A session for each profile that is asked for.

    Args:
        client: Of the service; closed with the sessions.
        terms: Of all sessions.
        sleep: Waits between attempts, seconds.
    """

    def __init__(
        self, client: Client, terms: Terms, *, sleep: Callable[[float], object] = time.sleep
    ) -> None:
        self._client, self._terms = client, terms
        self._sleep = sleep
        self._open: dict[str, Session] = {}

    def carry_out(self, profile: str, work: Callable[[Session], ResultT]) -> ResultT:
        """Work on a session, which is repeated in a new one if the service was restarted.

        Args:
            profile: Of the device.
            work: Leaves nothing in the session that later work needs.
        """
        pauses = recovery_pauses_s(RECOVERY_S)
        while True:
            try:
                return work(self.on(profile))
            except OpserveError as error:
                pause_s = next(pauses, None) if may_pass(error) else None
                if pause_s is None:
                    raise
                if isinstance(error, SessionLost) and profile in self._open:
                    with suppress(OpserveError):  # its lease ends what cannot be closed
                        self._open.pop(profile).close()
            self._sleep(pause_s)

    def on(self, profile: str) -> Session:
        """The session on a device of a profile."""
        if profile not in self._open:
            terms = self._terms
            opened = self._client.open_session(
                profile, accuracy=terms.accuracy, documented_rules=terms.documented_rules
            )
            self._open[profile] = opened.__enter__()
        return self._open[profile]

    def close(self) -> None:
        """Ends them all."""
        while self._open:
            self._open.popitem()[1].close()
        self._client.close()


class DeviceTarget:
    """Devices of a service, or those of one profile.

    Args:
        client: Of the service; closed with the target.
        profile: Only cases of this one are tried; "" means of all.
        terms: Of its sessions.

    Raises:
        InfrastructureError: The service has no device of the profile, or does not answer.
    """

    def __init__(self, client: Client, profile: str, terms: Terms) -> None:
        self._sessions = Sessions(client, terms)
        self._profile = profile
        if profile:
            _check_profile(client, profile)

    def skips(self, case: Case) -> str:
        """Nothing."""
        del case
        return ""

    async def run(self, case: Case, before: Arrays, *, read: Collection[str]) -> Outcome:
        """On a device of the case's profile.

        Raises:
            InfrastructureError: The way to the service failed.
        """
        if self._profile and case.profile != self._profile:
            return Missing(reason=f"only cases of {self._profile} are tried")
        try:
            if case.is_refused:
                return self._sessions.carry_out(case.profile, partial(plan_on, case=case))
            run = partial(run_on, case=case, storages=before, read=read)
            return self._sessions.carry_out(case.profile, run)
        except OpserveError as error:
            if error.code == Status.ACL_ERROR_RT_INVALID_DEVICEID:
                return Missing(reason=error.message)
            raise InfrastructureError(f"{case.id}: {error}") from error

    def close(self) -> None:
        """Ends the sessions."""
        self._sessions.close()


def _check_profile(client: Client, profile: str) -> None:
    """One that is misspelt would try no case."""
    try:
        served = {one.profile: None for one in client.list_devices()}
    except OpserveError as error:
        raise InfrastructureError(f"target: {error}") from error
    if profile not in served:
        raise InfrastructureError(f"target: given profile {profile}, allowed {', '.join(served)}")
