"""Golden values of cases: from the profile `reference` of a service, and kept on disk."""

from collections.abc import Mapping

from opserve_client.conform.on_device import run_on
from opserve_client.conform.targets.device import Sessions
from opserve_client.conform.targets.target import Array, InfrastructureError, Ran
from opserve_client.errors import OpserveError
from opserve_kernels.cases.cache import Cache
from opserve_kernels.cases.case import Case
from opserve_kernels.cases.golden import GoldenCall, golden_calls
from opserve_kernels.cases.golden_key import golden_key
from opserve_kernels.verdict.dtypes import Doubles
from opserve_kernels.verdict.golden_values import (
    goldens_in,
    kept_arrays,
    magnitudes_of,
    storages_of,
)
from opserve_kernels.verdict.judge_case import Golden


class Goldens:
    """Golden values, each computed once.

    Args:
        sessions: Of a service that has a device of the profile `reference`.
        contracts: Revisions of the operators' contracts there.
        cache: Where they are kept.
    """

    def __init__(self, sessions: Sessions, contracts: Mapping[str, str], cache: Cache) -> None:
        self._sessions, self._contracts, self._cache = sessions, contracts, cache

    def of(self, case: Case, seed: int) -> Mapping[str, Golden]:
        """By output that the case writes.

        Raises:
            InfrastructureError: The service does not give them.
        """
        found: dict[str, Golden] = {}
        for call in golden_calls(case, seed):
            key = golden_key(call, contract=self._contracts[case.operator])
            arrays = self._cache.get(key)
            if arrays is None:
                arrays = self._computed(call)
                self._cache.put(key, arrays)
            found |= goldens_in(call, arrays)
        return found

    def close(self) -> None:
        """Ends the sessions."""
        self._sessions.close()

    def _computed(self, call: GoldenCall) -> Mapping[str, Array]:
        values = self._run(call.case, call.operands)
        magnitudes = self._run(call.case, magnitudes_of(call.operands))
        return kept_arrays(call.case, values, magnitudes)

    def _run(self, case: Case, operands: Mapping[str, Doubles]) -> Mapping[str, Array]:
        storages = storages_of(case, operands)
        try:
            outcome = run_on(self._sessions.on(case.profile), case, storages, read=case.written)
        except OpserveError as error:
            raise InfrastructureError(f"golden values of {case.id}: {error}") from error
        if not isinstance(outcome, Ran):
            raise InfrastructureError(f"golden values of {case.id}: {outcome.reason}")
        return outcome.storages
