"""One case: drawn, run on the target as often as asked, judged."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import assert_never

from opserve_client.arguments import DocumentedRulesName
from opserve_client.conform.goldens import Goldens
from opserve_client.conform.record import Result
from opserve_client.conform.targets.target import (
    Broken,
    Missing,
    Outcome,
    Ran,
    Refused,
    Target,
    Tensors,
)
from opserve_kernels.cases.arrays import Placed, arrays_of, view_of
from opserve_kernels.cases.case import Case
from opserve_kernels.cases.refusals.warned import stands_for_refusal
from opserve_kernels.verdict.judge_case import (
    NO_STANDARDS,
    Results,
    Standards,
    judge_case,
    judge_code,
)
from opserve_kernels.verdict.verdict import Code, Status, Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """What cases are tried with.

    Attributes:
        target: What is tried.
        goldens: What must come out.
        contracts: Revision of each operator's contract.
        seed: That inputs are drawn by.
        repeats: Equal calls, whose bits must be equal.
        documented_rules: Answer of the target to calls that break a rule of the page alone.
        standards: Told besides.
    """

    target: Target
    goldens: Goldens
    contracts: Mapping[str, str]
    seed: int
    repeats: int = 1
    documented_rules: DocumentedRulesName = "error"
    standards: Standards = NO_STANDARDS

    def run(self, case: Case) -> Result:
        """Tries a case.

        Raises:
            InfrastructureError: Nothing can be said of it.
        """
        if case.is_refused:
            return self._refused_case(case)
        tensors, runs = arrays_of(case, self.seed), list[Ran]()
        for _ in range(self.repeats):
            outcome = self.target.run(case, _copied(case, tensors))
            if not isinstance(outcome, Ran):
                return self._without_outputs(case, outcome)
            runs.append(outcome)
        results = Results(
            outputs=[run.outputs for run in runs],
            before={name: placed.storage for name, placed in tensors.items()},
            after=runs[0].storages,
        )
        verdict = judge_case(
            case,
            results,
            golden=self.goldens.of(case, tensors, self.seed),
            contract=self.contracts[case.operator],
            standards=self.standards,
        )
        seconds, warnings = min(run.seconds for run in runs), _told(runs[0])
        return Result(case=case, verdict=verdict, seconds=seconds, warnings=warnings)

    def close(self) -> None:
        """Ends what the target and the golden values hold."""
        self.target.close()
        self.goldens.close()

    def _refused_case(self, case: Case) -> Result:
        contract = self.contracts[case.operator]
        if not self.target.has_codes:
            reason = "the target refuses nothing with a status code"
            return Result(case=case, verdict=unjudged(case, Status.SKIPPED, reason, contract))
        return self._without_outputs(case, self.target.run(case, {}))

    def _without_outputs(self, case: Case, outcome: Outcome) -> Result:
        contract = self.contracts[case.operator]
        match outcome:
            case Ran():
                return self._accepted(case, outcome)
            case Refused(code=code):
                verdict = judge_code(case, code, contract)
            case Missing(reason=reason):
                verdict = unjudged(case, Status.UNIMPLEMENTED, reason, contract)
            case Broken(reason=reason):
                verdict = unjudged(case, Status.ERROR, reason, contract)
            case _:
                assert_never(outcome)
        return Result(case=case, verdict=verdict)

    def _accepted(self, case: Case, ran: Ran) -> Result:
        """Of a call that must be refused: a warning of its rule is as good as the code."""
        warns = self.documented_rules == "warn"
        codes = (
            Code(number=broken.code, name=broken.name)
            for broken in ran.warnings
            if stands_for_refusal(case, broken, warns=warns)
        )
        code = next(codes, None)
        verdict = judge_code(case, code, self.contracts[case.operator])
        if code is not None:
            verdict = replace(verdict, reason=f"accepted with a warning of {code.text}")
        return Result(case=case, verdict=verdict, warnings=_told(ran))


def _told(ran: Ran) -> tuple[str, ...]:
    return tuple(str(broken) for broken in ran.warnings)


def unjudged(case: Case, status: Status, reason: str, contract: str) -> Verdict:
    """A verdict on what was not judged."""
    return Verdict(case=case.id, status=status, reason=reason, contract=contract)


def _copied(case: Case, tensors: Tensors) -> Tensors:
    """Memory of the target's own."""
    copies = {name: placed.storage.copy() for name, placed in tensors.items()}
    return {
        name: Placed(storage=copy, elements=view_of(copy, case.tensors[name]))
        for name, copy in copies.items()
    }
