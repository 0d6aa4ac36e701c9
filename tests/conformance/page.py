"""docs/conformance-faults.md: which suite sees each fault, and what of a verdict tells.

PYTHONPATH=tests python -m conformance.page          # writes it
PYTHONPATH=tests python -m conformance.page --check  # fails where it is stale
"""

import argparse
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from conformance.faulty.faults import FAULTS
from conformance.survey import PRODUCTS_LIMIT, Seen, small_cases, survey

PAGE = Path(__file__).resolve().parents[2] / "docs" / "conformance-faults.md"
SUITES = ("smoke", "standard")
CHECKS = {
    "exact": "integers whose sums every order makes alike",
    "rounding": "the bound of each element's sum",
    "written": "an output held a NaN that is still there",
    "gaps": "storage between elements changed",
    "untouched": "an input or a masked output changed",
    "repeats": "equal calls gave different bits",
    "status": "a refusal is missing or has another code",
}
_INTRODUCTION = f"""# Faults that the suites catch

Written by `make conformance-faults`, not by hand. Each row is a kernel that is right but for one
fault (tests/conformance/faulty), run on the calls of `convolution_backward` and `im2col_backward`
of a suite with seed 0, those of at most {PRODUCTS_LIMIT:,} products. *Caught* is in how many cases
the verdict is not PASSED, of those where the fault changes a bit or a code at all. The layers and
checks are those that complained, in how many cases of `standard`, each with one of them.

"""
_MISSES = """
What is left over is no wrong result: a sum that is rounded twice, or flushed to 0, may well be as
near to the right one as a sum in another order is; a bit that a race changes may be one of those.
`smoke` draws integers only, whose sums every precision has exactly: it sees no rounding.

The same command runs kernels that are right over 20 seeds: our own on every profile, PyTorch's and
ONNX Runtime's on the CPU (the targets `torch` and `onnxruntime`) in FLOAT and BF16. None may be
accused. What those libraries do otherwise than the contract says is told, and is no false alarm:

- PyTorch adds partial sums of FLOAT16 in FLOAT16, in convolutions and where columns are folded, and
  folds columns of BF16 in BF16: with `accumulator="float16"` for the rounding layer all but one of
  the convolutions that fail pass.
- PyTorch multiplies the padding in FLOAT: 0 by an infinity is no number. Those calls are left out.
"""


def main() -> int:
    """Writes the page, or compares; returns the exit status."""
    parser = argparse.ArgumentParser(description="The page of faults")
    parser.add_argument("--check", action="store_true", help="write nothing; fail when stale")
    is_check = parser.parse_args().check
    seen = {suite: _seen(suite) for suite in SUITES}
    text = page(seen)
    told = [f"not caught: {name}" for name, row in seen["standard"].items() if not row.caught]
    if not is_check:
        PAGE.write_text(text)
    elif PAGE.read_text() != text:
        told.append("stale: docs/conformance-faults.md; run python -m conformance.page")
    sys.stdout.write("".join(f"{line}\n" for line in told))
    return 1 if told else 0


def page(seen: Mapping[str, Mapping[str, Seen]]) -> str:
    """The whole page from what was seen in each suite."""
    told = "".join(f"| `{name}` | {meaning} |\n" for name, meaning in CHECKS.items())
    rows = "".join(f"| {' | '.join(_row(name, seen))} |\n" for name in FAULTS)
    head = ("fault", "what is wrong", *(f"caught by `{suite}`" for suite in SUITES), "by")
    return (
        f"{_INTRODUCTION}| layer or check | what it goes by |\n|---|---|\n{told}\n"
        f"| {' | '.join(head)} |\n{'|---' * len(head)}|\n{rows}{_MISSES}"
    )


def examples(text: str) -> Iterator[tuple[str, str, str]]:
    """Fault, layer and case id of every example on the page."""
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if cells[0] in FAULTS:
            for told in cells[-1].split("; ") if cells[-1] else ():
                layer, _, _, example = told.split(" ")
                yield cells[0], layer, example.strip("`()")


def _seen(suite: str) -> dict[str, Seen]:
    found = {name: Seen() for name in FAULTS}
    survey(small_cases(suite), 0, found)
    return found


def _row(name: str, seen: Mapping[str, Mapping[str, Seen]]) -> list[str]:
    rows = [seen[suite][name] for suite in SUITES]
    counts = [f"{row.caught} of {row.shows}" for row in rows]
    last = rows[-1]
    told = [
        f"{layer} {last.by[layer]} in `{last.examples[layer]}`"
        for layer in CHECKS
        if last.by[layer]
    ]
    return [name, FAULTS[name].told, *counts, "; ".join(told)]


if __name__ == "__main__":
    sys.exit(main())
