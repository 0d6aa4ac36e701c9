"""A device of an opserve service as a target: "opserve" or "opserve:HOST:PORT/profile"."""

from dataclasses import dataclass

from opserve_client._sync.client import Client
from opserve_client._sync.session import Session
from opserve_client.arguments import AccuracyName, DocumentedRulesName
from opserve_client.conform.on_device import plan_on, run_on
from opserve_client.conform.targets.target import (
    InfrastructureError,
    Missing,
    Outcome,
    Tensors,
)
from opserve_client.errors import OpserveError
from opserve_kernels.cases.case import Case

_UNKNOWN_PROFILE = 107001


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
    """

    def __init__(self, client: Client, terms: Terms) -> None:
        self._client, self._terms = client, terms
        self._open: dict[str, Session] = {}

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

    has_codes = True

    def __init__(self, client: Client, profile: str, terms: Terms) -> None:
        self._sessions = Sessions(client, terms)
        self._profile = profile
        if profile:
            _check_profile(client, profile)

    def run(self, case: Case, tensors: Tensors) -> Outcome:
        """On a device of the case's profile."""
        if self._profile and case.profile != self._profile:
            return Missing(reason=f"only cases of {self._profile} are tried")
        try:
            session = self._sessions.on(case.profile)
            if case.is_refused:
                return plan_on(session, case)
            storages = {name: one.storage for name, one in tensors.items()}
            return run_on(session, case, storages, read=list(storages))
        except OpserveError as error:
            if error.code == _UNKNOWN_PROFILE:
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
