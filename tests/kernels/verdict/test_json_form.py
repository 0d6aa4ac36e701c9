"""Verdicts go through JSON unchanged, and their size has a bound."""

import json

import numpy as np
import pytest

from opserve_kernels.verdict.exact import Exact
from opserve_kernels.verdict.json_form import from_json, to_json
from opserve_kernels.verdict.judge import conclude, judge, judge_refusal
from opserve_kernels.verdict.pair import Pair
from opserve_kernels.verdict.verdict import Check, Code, Status, Verdict

BYTES_OF_AN_OUTPUT = 40_000  # 3 maps of 1024 cells, 20 elements, and the rest


def broken() -> Verdict:
    """A verdict with every kind of part and of number."""
    expected = np.arange(120.0).reshape(2, 3, 4, 5) / 3
    given = expected.astype(np.float32)
    given[0, 0, 0] = [np.nan, np.inf, -np.inf, 7, 8]
    axes = ("n", "c", "h", "w")
    return conclude(
        "a case",
        contract="7",
        outputs=[judge("grad_input", Pair(given=given, expected=expected), Exact(), axes=axes)],
        checks=[
            Check(
                name="inputs",
                tensor="weight",
                status=Status.FAILED,
                reason="weight: 1 element changed",
                elements=1,
                first=((0, 1),),
            )
        ],
        refusal=judge_refusal(Code(number=161002), None),
    )


def test_a_verdict_survives_a_round_trip() -> None:
    verdict = broken()
    read = from_json(json.loads(json.dumps(to_json(verdict), allow_nan=False)))
    assert repr(read) == repr(verdict)  # NaN equals no NaN, but reads the same


def test_a_verdict_of_a_large_output_is_small() -> None:
    expected = np.arange(64.0 * 64 * 32 * 32).reshape(64, 64, 32, 32) / 3
    pair = Pair(given=np.zeros(expected.shape, np.float16), expected=expected)
    output = judge("grad_input", pair, Exact(), axes=("n", "c", "h", "w"))
    text = json.dumps(to_json(conclude("a case", contract="7", outputs=[output])))
    assert len(text) < BYTES_OF_AN_OUTPUT


@pytest.mark.parametrize("change", [{"version": 2}, {"status": "GOOD"}, {"outputs": 3}])
def test_another_form_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"verdict|GOOD"):
        from_json({**to_json(broken()), **change})


def test_a_form_without_a_part_is_refused() -> None:
    form = to_json(broken())
    del form["checks"]
    with pytest.raises(ValueError, match="checks"):
        from_json(form)
