"""Golden values of cases: from the profile `reference` of a service, and kept on disk."""

from collections.abc import Mapping

from opserve_client.conform.on_device import run_on
from opserve_client.conform.targets.device import Sessions
from opserve_client.conform.targets.target import Array, InfrastructureError, Ran, Tensors
from opserve_client.errors import OpserveError
from opserve_kernels.cases.cache import Cache
from opserve_kernels.cases.case import Case
from opserve_kernels.cases.golden import GoldenCall, golden_calls
from opserve_kernels.cases.golden_key import golden_key
from opserve_kernels.verdict.golden_values import Question, goldens_in, kept_arrays, questions_of
from opserve_kernels.verdict.judge_case import Golden, sized_outputs


class Goldens:
    """Golden values, each computed once.

    Args:
        sessions: Of a service that has a device of the profile `reference`.
        contracts: Revisions of the operators' contracts there.
        cache: Where they are kept.
    """

    def __init__(self, sessions: Sessions, contracts: Mapping[str, str], cache: Cache) -> None:
        self._sessions, self._contracts, self._cache = sessions, contracts, cache

    def of(self, case: Case, tensors: Tensors, seed: int) -> Mapping[str, Golden]:
        """By output that the case writes.

        Args:
            case: The case.
            tensors: Its tensors before the call.
            seed: That they were drawn by.

        Raises:
            InfrastructureError: The service does not give them.
        """
        found: dict[str, Golden] = {}
        given = {name: tensors[name].elements for name in case.inputs}
        for call in golden_calls(case, given, seed=seed, sized=sized_outputs(case)):
            key = golden_key(call, contract=self._contracts[case.operator])
            arrays = self._cache.get(key)
            if arrays is None:
                arrays = self._computed(call)
                self._cache.put(key, arrays)
            found |= goldens_in(arrays, call.projection)
        return found

    def close(self) -> None:
        """Ends the sessions."""
        self._sessions.close()

    def _computed(self, call: GoldenCall) -> Mapping[str, Array]:
        arrays: dict[str, Array] = {}
        for question in questions_of(call):
            arrays |= kept_arrays(question, self._answer(question))
        return arrays

    def _answer(self, question: Question) -> Mapping[str, Array]:
        case = question.case
        try:
            outcome = self._sessions.carry_out(
                case.profile,
                lambda session: run_on(session, case, question.storages, read=case.written),
            )
        except OpserveError as error:
            raise InfrastructureError(f"golden values of {case.id}: {error}") from error
        if not isinstance(outcome, Ran):
            raise InfrastructureError(f"golden values of {case.id}: {outcome.reason}")
        return outcome.storages
