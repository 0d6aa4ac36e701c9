"""The backend of trials: this process, and a service's device of the profile `reference`."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

from opserve_client.conform.on_device import run_on
from opserve_client.conform.targets.device import Sessions
from opserve_client.conform.targets.target import InfrastructureError
from opserve_client.errors import OpserveError
from opserve_kernels.conformance.expected import (
    NO_REFERENCE,
    Answer,
    CallGroup,
    PreparedCall,
    answers_to,
)
from opserve_kernels.conformance.target import Ran
from opserve_kernels.status import Status
from opserve_kernels.verdict.judge_case import Arrays

ResultT = TypeVar("ResultT")


class LocalBackend:
    """A backend in this process; its coroutines never wait.

    Args:
        sessions: Sessions of a service with a device of the profile `reference`.
    """

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions

    async def do(self, work: Callable[[], ResultT]) -> ResultT:
        """Returns the result of a function."""
        return work()

    async def answers(self, calls: Sequence[CallGroup]) -> Sequence[Answer]:
        """Returns expected values.

        Raises:
            InfrastructureError: The service failed or is unreachable.
        """
        return await answers_to(calls, self._answered)

    def close(self) -> None:
        """Closes the sessions."""
        self._sessions.close()

    async def _answered(self, prepared: PreparedCall) -> Arrays:
        case = prepared.case
        run = partial(run_on, case=case, storages=prepared.storages, read=case.written)
        try:
            outcome = self._sessions.run(case.profile, run)
        except OpserveError as error:
            if error.code == Status.ACL_ERROR_RT_INVALID_DEVICEID:
                remedy = "or name no service, so that one is started for the run"
                raise InfrastructureError(f"{NO_REFERENCE}, {remedy}") from error
            raise InfrastructureError(f"expected values of {case.id}: {error}") from error
        if not isinstance(outcome, Ran):
            raise InfrastructureError(f"expected values of {case.id}: {outcome.reason}")
        return outcome.storages
