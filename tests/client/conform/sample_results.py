"""Results of cases with a known fault each, for reports."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from opserve_client.conform.record import Header, Result, RunRecord
from opserve_kernels.cases.calls import Setting
from opserve_kernels.cases.case import Case
from opserve_kernels.cases.projection import Projection, project, random_signs
from opserve_kernels.operators.convolution_backward.cases.calls import ConvolutionCall
from opserve_kernels.operators.im2col_backward.cases.calls import FoldCall
from opserve_kernels.verdict.checks import check_untouched
from opserve_kernels.verdict.judge import conclude, judge, judge_refusal
from opserve_kernels.verdict.pair import Pair
from opserve_kernels.verdict.projection import judge_projection
from opserve_kernels.verdict.rounding import Rounding
from opserve_kernels.verdict.verdict import Code, Status

Floats = NDArray[np.float32]
HEADER = Header(
    tool="1.2",
    suite="mine",
    digest="sha256:00",
    cases=4,
    chosen="sha256:01",
    seed=7,
    target="my_kernels:backward",
    contracts={"im2col_backward": "2", "convolution_backward": "3"},
)
LAST_COLUMN = 5  # of the w of a fold


def nothing_wrong(given: Floats) -> None:
    del given


def last_column_wrong(given: Floats) -> None:
    given[..., -1] += 1


def fold(channels: int = 3, *, source: str = "") -> Case:
    setting = Setting(source=source)
    return FoldCall(out=(2, channels, 4, LAST_COLUMN + 1), kernel=(1, 1)).case(setting)


def folded(
    fault: Callable[[Floats], None] = last_column_wrong,
    *,
    case: Case | None = None,
    shift: float = 0.0,
) -> Result:
    """A fold whose results are all ones, but for a fault and a shift of the first element."""
    made = case or fold()
    expected = np.ones(made.tensors["out"].shape)
    given = expected.astype(np.float32)
    fault(given)
    given.reshape(-1)[0] += np.float32(shift)
    rule = Rounding(magnitude=np.ones(expected.shape), terms=9)
    output = judge("out", Pair(given=given, expected=expected), rule, axes=("n", "c", "h", "w"))
    checks = [check_untouched("grad_output", given, given)]
    verdict = conclude(made.id, contract="2", outputs=[output], checks=checks)
    return Result(case=made, verdict=verdict, seconds=0.25)


def projected() -> Result:
    """The fold whose last column is wrong, judged by sums of channels."""
    case = fold()
    given = np.ones(case.tensors["out"].shape, np.float32)
    signs = random_signs(case.id, HEADER.seed, "out", vectors=4, channels=given.shape[1])
    expected = project(given, signs, axis=1)
    last_column_wrong(given)
    projection = Projection(signs=signs, axis=1, groups=1)
    output = judge_projection("out", given, expected, projection)
    return Result(case=case, verdict=conclude(case.id, contract="2", outputs=[output]))


def refused() -> Result:
    """A call that had to be refused, and was not."""
    case = ConvolutionCall(input=(1, 1, 4, 4), weight=(1, 1, 3, 3)).case()
    case = replace(case, expect="ACLNN_ERR_PARAM_INVALID")
    refusal = judge_refusal(Code(number=161002, name=case.expect), None)
    return Result(case=case, verdict=conclude(case.id, contract="3", refusal=refusal))


def failed(status: Status, reason: str, *, channels: int = 5) -> Result:
    """A case that nothing was judged of."""
    case = fold(channels)
    verdict = replace(conclude(case.id, contract="2"), status=status, reason=reason)
    return Result(case=case, verdict=verdict)


def run(*results: Result, target: str = HEADER.target) -> RunRecord:
    header = replace(HEADER, cases=len(results), target=target)
    return RunRecord(header=header, results=results)


SAMPLE = run(
    folded(),
    folded(nothing_wrong, case=fold(4)),
    refused(),
    failed(Status.SKIPPED, "too large for the target"),
)
