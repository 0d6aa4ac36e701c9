"""Synthetic conformance runs: verdicts on random results for a suite, some of them wrong."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import prod

import numpy as np
from numpy.typing import NDArray

from opserve_client.conform.record import Header, Result, RunRecord
from opserve_kernels.cases.case import Case, Kind
from opserve_kernels.cases.suites import SUITES
from opserve_kernels.tensor import NUMPY_DTYPES
from opserve_kernels.verdict.checks import check_repeats, check_untouched
from opserve_kernels.verdict.exact import Exact
from opserve_kernels.verdict.judge import conclude, judge, judge_refusal
from opserve_kernels.verdict.pair import Pair
from opserve_kernels.verdict.rounding import Rounding
from opserve_kernels.verdict.vendor.grade import grade
from opserve_kernels.verdict.vendor.standard import Subject
from opserve_kernels.verdict.verdict import Code, OutputVerdict, Status, Verdict

Array = NDArray[np.float64]
ELEMENTS = 4096  # most elements of an output: larger ones are reduced
NOISE = 3e-6  # relative noise of correct results: within the tolerance of float32
TERMS = 64  # assumed terms in the sums of results
AXES = {
    "grad_input": ("n", "c", "d", "h", "w"),
    "grad_weight": ("k", "c", "kd", "kh", "kw"),
    "grad_bias": ("c",),
}


def _last_column(given: Array) -> None:
    given[..., -1] += 3


def _every_second_row(given: Array) -> None:
    given[..., 1::2, :] *= 1.5


def _channel_tail(given: Array) -> None:
    given[:, -max(1, given.shape[1] // 4) :] = 0


def _one_element(given: Array) -> None:
    given.reshape(-1)[given.size // 2] += 1


def _border(given: Array) -> None:
    given[..., [0, -1], :] -= 1
    given[..., :, [0, -1]] -= 1


def _precision_lost(given: Array) -> None:
    given *= 1 + np.geomspace(1e-8, 1e-4, given.shape[-1])


def _unwritten(given: Array) -> None:
    given[..., -1, -1] = np.nan


FAULTS: Sequence[Callable[[Array], None]] = (
    _last_column,
    _every_second_row,
    _channel_tail,
    _one_element,
    _border,
    _precision_lost,
    _unwritten,
)


def sample_run(
    cases: int, *, seed: int = 0, failing: float = 0.1, elements: int = ELEMENTS
) -> RunRecord:
    """Returns a run.

    Args:
        cases: Number of cases, from the suite `smoke` if it has enough, else from `exhaustive`.
        seed: Seed of the results.
        failing: Share of the cases that fail.
        elements: Most elements of an output.
    """
    random = np.random.default_rng(seed)
    small = SUITES["smoke"](0)
    suite = small if cases <= len(small.cases) else SUITES["exhaustive"](0)
    places: list[int] = random.choice(len(suite.cases), cases, replace=False).tolist()
    header = Header(
        tool="my runner 1",
        suite=suite.name,
        digest=suite.digest,
        cases=cases,
        chosen="sha256:" + "0" * 64,
        seed=0,
        target="my_kernels.npu:backward",
        contracts={case.operator: "1" for case in suite.cases},
    )
    results = tuple(
        _result(suite.cases[place], random, failing=failing, elements=elements)
        for place in sorted(places)
    )
    return RunRecord(header=header, results=results)


def _result(case: Case, random: np.random.Generator, *, failing: float, elements: int) -> Result:
    fails = random.random() < failing
    seconds = float(random.exponential(0.002))
    if case.is_refused:
        verdict = _refusal(case, fails=fails)
    elif fails and random.random() < 1 / 8:
        verdict = _odd(case, random)
    else:
        verdict = _judged(case, random, fails=fails, elements=elements)
    return Result(case=case, verdict=verdict, seconds=seconds)


def _refusal(case: Case, *, fails: bool) -> Verdict:
    given = Code(number=0, name="ACL_SUCCESS") if fails else Code(name=case.expect)
    return conclude(case.id, contract="1", refusal=judge_refusal(Code(name=case.expect), given))


def _odd(case: Case, random: np.random.Generator) -> Verdict:
    """Returns a verdict without wrong values: an error, a skipped or an unimplemented case."""
    status = (Status.ERROR, Status.SKIPPED, Status.UNIMPLEMENTED)[int(random.integers(3))]
    reason = {
        Status.ERROR: "the target raised RuntimeError: kernel launch failed",
        Status.SKIPPED: "needs more memory than the target has",
        Status.UNIMPLEMENTED: "the target has no transposed convolution",
    }[status]
    return replace(conclude(case.id, contract="1"), status=status, reason=reason)


def _judged(case: Case, random: np.random.Generator, *, fails: bool, elements: int) -> Verdict:
    outputs = [
        _output(case, name, random, fails=fails and place == 0, elements=elements)
        for place, name in enumerate(case.written)
    ]
    first = np.zeros(8, np.float32)
    checks = [check_untouched(name, first, first) for name in case.inputs]
    if fails and case.written and random.random() < 1 / 8:
        checks.append(check_repeats(case.written[0], [first, first + np.eye(8, dtype="f4")[3]]))
    return conclude(case.id, contract="1", outputs=outputs, checks=checks)


def _output(
    case: Case, name: str, random: np.random.Generator, *, fails: bool, elements: int
) -> OutputVerdict:
    shape = _cut(case.tensors[name].shape, elements)
    dtype = NUMPY_DTYPES[case.tensors[name].dtype]
    is_exact = case.kind is Kind.INTEGER
    expected = random.integers(-90, 90, shape).astype(np.float64)
    noise = 0 if is_exact or dtype == np.float64 else NOISE
    values = expected + random.normal(0, noise, shape)
    if fails and values.ndim > 1 and values.size:
        values = values.copy()
        FAULTS[int(random.integers(len(FAULTS)))](values)
    pair = Pair(given=values.astype(dtype), expected=expected)
    rule = Exact() if is_exact else Rounding(magnitude=np.abs(expected) + 8, terms=TERMS)
    precision = {"float16": "float16", "bfloat16": "bfloat16"}.get(dtype.name, "float32")
    subject = Subject(pair=pair, terms=TERMS, precision=precision, of_weight=name == "grad_weight")
    return judge(name, pair, rule, axes=_axes(name, len(shape)), reported=grade(subject))


def _cut(shape: tuple[int, ...], elements: int) -> tuple[int, ...]:
    """Returns a shape with at most `elements` elements, by halving its longest axes."""
    sizes = list(shape)
    while prod(sizes) > elements:
        longest = sizes.index(max(sizes))
        sizes[longest] = -(-sizes[longest] // 2)
    return tuple(sizes)


def _axes(name: str, rank: int) -> tuple[str, ...]:
    """Returns the names of the axes: of the longest form the first two and the last ones."""
    whole = AXES.get(name, ("n", "c", "d", "h", "w"))
    return (*whole[:2], *whole[len(whole) - rank + 2 :])[:rank] if rank > 1 else whole[-1:]
