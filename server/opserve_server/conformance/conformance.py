"""Verdicts on outputs of others: cases, their inputs, what must come out, and whether it did."""

import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TypeVar, assert_never

from opserve_kernels.cases.case import Case, canonical
from opserve_kernels.cases.fill import Array
from opserve_kernels.cases.golden_values import kept_arrays
from opserve_kernels.cases.suites import SUITES
from opserve_kernels.cases.sums import multiply_adds
from opserve_kernels.registry import OPERATORS
from opserve_kernels.status import DeconvStatus, Status, TbeStatus
from opserve_kernels.verdict.json_form import to_json
from opserve_kernels.verdict.judge_case import judge_code
from opserve_kernels.verdict.verdict import Code
from opserve_server.calls import caller, malformed
from opserve_server.conformance import tasks
from opserve_server.conformance.calls import (
    CasePage,
    GetCase,
    GetGolden,
    GetInputs,
    ListCases,
    ListSuites,
    OfCase,
    OneCase,
    SuiteInfo,
    Suites,
    Verified,
    Verify,
)
from opserve_server.conformance.desk import Desk
from opserve_server.conformance.execution import Ran, run_case
from opserve_server.core.errors import HandleNotFound, LimitExceeded, Unavailable
from opserve_server.core.leases import leased
from opserve_server.core.service import Service
from opserve_server.npz import ArrayLimits

ResultT = TypeVar("ResultT")
CASES, CASES_LIMIT = 100, 1000
"""Cases of a page: where nobody says how many, and at most."""
_TEXT_LIMIT = 128
_PIECE_BYTES = 256 * 1024
_SEED_LIMIT = 2**63 - 1
_FAMILIES = (DeconvStatus, TbeStatus, Status)
_NAMES = {str(status.value): status.name for family in _FAMILIES for status in family}
"""Of statuses by their numbers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConformanceLimits:
    """Bounds on what one case may cost.

    Attributes:
        elements: Of one tensor of it.
        multiply_adds: Products of all its outputs.
        arrays: Of an .npz of outputs.
        golden_folder: Where golden values are kept.
        golden_bytes: Of all of them.
    """

    elements: int
    multiply_adds: int
    arrays: ArrayLimits
    golden_folder: Path
    golden_bytes: int


class Conformance:
    """The calls of conformance, for whoever calls (calls.caller).

    Args:
        service: Its device of the profile `reference` is the arbiter.
        desk: Where is drawn and judged.
        limits: Bounds on cases.

    Attributes:
        array_limits: Bounds on an .npz of outputs.
    """

    def __init__(self, service: Service, desk: Desk, limits: ConformanceLimits) -> None:
        self._service, self._desk, self._limits = service, desk, limits
        self.array_limits = limits.arrays
        self._shelf = tasks.Shelf(folder=limits.golden_folder, limit_bytes=limits.golden_bytes)

    async def run(self, request: ListSuites | ListCases | GetCase) -> Suites | CasePage | OneCase:
        """Carries out a call without arrays, and gives its answer as ANSWERS tells.

        Raises:
            HandleNotFound: 107017, there is no such suite or case.
            InvalidArgument: 100000, something is out of bounds.
        """
        match request:
            case ListSuites():
                return Suites(
                    suites=[
                        SuiteInfo(name=name, summary=str(suite.__doc__))
                        for name, suite in SUITES.items()
                    ]
                )
            case ListCases():
                return await self._page(request)
            case GetCase():
                async with self._desk.turn(caller().tenant):
                    case = await self._case(request)
                return OneCase(definition=canonical(case.to_json()))
            case _:
                assert_never(request)

    async def archive(self, asked: GetInputs | GetGolden) -> AsyncGenerator[bytes]:
        """The .npz file that is asked for, in pieces; it has none of a call that must be refused.

        Golden values have values.NAME of each output and magnitudes.NAME of its sums.
        """
        async with self._desk.turn(caller().tenant):
            case = await self._case(asked)
            if case.is_refused:
                allowed = "a case that must succeed: this one has no arrays"
                raise HandleNotFound("case", case.id, allowed=allowed)
            self._check_size(case)
            if isinstance(asked, GetInputs):
                data = await self._desk.do(tasks.inputs_of, case, asked.seed)
            else:
                data = await self._settled(self._sought(case, asked.seed), tasks.golden_of)
        with self._service.accounts.of(caller().tenant).in_flight(len(data)):
            for start in range(0, len(data), _PIECE_BYTES):
                yield data[start : start + _PIECE_BYTES]

    async def verify(
        self, asked: Verify, read: Callable[[], Awaitable[Mapping[str, Array]]]
    ) -> Verified:
        """The verdict on outputs.

        Args:
            asked: Of which case.
            read: Unpacks them, once the caller has its turn.
        """
        code = _code(asked.code) if asked.code else None
        async with self._desk.turn(caller().tenant):
            case = await self._case(asked)
            sought = self._sought(case, asked.seed)
            if case.is_refused or code is not None:
                verdict = judge_code(case, code, sought.contract)
            else:
                self._check_size(case)
                judge = partial(tasks.verdict_on, outputs=await read())
                verdict = await self._settled(sought, judge)
        return Verified(
            case=case.id,
            status=verdict.status.value,
            reason=verdict.reason,
            verdict=json.dumps(to_json(verdict), allow_nan=False),
        )

    async def _page(self, asked: ListCases) -> CasePage:
        _check_suite(asked.suite, asked.seed)
        for name in ("operator", "match", "cursor"):
            given = getattr(asked, name)
            if len(given) > _TEXT_LIMIT:
                raise malformed(name, given=given, allowed=f"at most {_TEXT_LIMIT} characters")
        if asked.operator and asked.operator not in OPERATORS:
            raise malformed("operator", given=asked.operator, allowed=", ".join(OPERATORS))
        if not 0 <= asked.limit <= CASES_LIMIT:
            raise malformed("limit", given=asked.limit, allowed=f"0 to {CASES_LIMIT}")
        async with self._desk.turn(caller().tenant):
            page = await self._desk.do(tasks.page_of, asked, asked.limit or CASES)
        if page is None:
            raise malformed("cursor", given=asked.cursor, allowed="the cursor of a page")
        return page

    async def _case(self, asked: OfCase) -> Case:
        _check_suite(asked.suite, asked.seed)
        case = await self._desk.do(tasks.case_in, asked.suite, asked.seed, asked.case)
        if case is None:
            allowed = f"a case of suite {asked.suite} with seed {asked.seed}"
            raise HandleNotFound("case", asked.case[:_TEXT_LIMIT], allowed=allowed)
        return case

    def _check_size(self, case: Case) -> None:
        elements = max(tensor.storage_elements for tensor in case.tensors.values())
        for what, given, limit in (
            ("elements of a tensor", elements, self._limits.elements),
            ("multiply-adds", multiply_adds(case), self._limits.multiply_adds),
        ):
            if given > limit:
                raise LimitExceeded(
                    Status.ACL_ERROR_RT_OVER_LIMIT,
                    f"case: given {given} {what}, allowed {limit}",
                    parameter="case",
                    given=f"{given} {what}",
                    allowed=limit,
                )

    def _sought(self, case: Case, seed: int) -> tasks.Sought:
        contract = str(OPERATORS[case.operator].revision)
        return tasks.Sought(case=case, seed=seed, contract=contract, shelf=self._shelf, computed={})

    async def _settled(
        self, sought: tasks.Sought, task: Callable[[tasks.Sought], ResultT | tasks.Open]
    ) -> ResultT:
        """What a task comes to, once the arbiter has answered what it asks."""
        answer = await self._desk.do(task, sought)
        while isinstance(answer, tuple):
            new = {question.key: await self._answer(question) for question in answer}
            sought = replace(sought, computed={**sought.computed, **new})
            answer = await self._desk.do(task, sought)
        return answer

    async def _answer(self, question: tasks.Question) -> Mapping[str, Array]:
        """Golden values and magnitudes, computed in a session of the caller's."""
        case, found = question.case, list[Mapping[str, Array]]()
        async with leased(self._service, caller(), case.profile) as lease:
            lease.repeats_bits()
            for storages in (question.values, question.magnitudes):
                outcome = await run_case(lease, case, storages, read=case.written)
                if not isinstance(outcome, Ran):
                    raise _no_answer(str(outcome))
                found.append(outcome.storages)
        values, magnitudes = found
        return kept_arrays(case, values, magnitudes)


def _check_suite(suite: str, seed: int) -> None:
    if suite not in SUITES:
        raise HandleNotFound("suite", suite[:_TEXT_LIMIT], allowed=", ".join(SUITES))
    if not 0 <= seed <= _SEED_LIMIT:
        raise malformed("seed", given=seed, allowed=f"0 to {_SEED_LIMIT}")


def _code(given: str) -> Code:
    """A status by its name or number."""
    if len(given) > _TEXT_LIMIT:
        raise malformed("code", given=given, allowed=f"at most {_TEXT_LIMIT} characters")
    return Code(name=_NAMES.get(given, given))


def _no_answer(reason: str) -> Unavailable:
    return Unavailable(
        Status.ACL_ERROR_RT_SOCKET_CLOSE,
        f"golden values: given no answer of the arbiter ({reason}), allowed a later try",
        parameter="golden values",
        given="no answer of the arbiter",
        allowed="a later try",
    )
