"""docs/reference/conformance-faults.md: which suite and which part of a verdict show each fault.

PYTHONPATH=tests python -m conformance.page          # writes it
PYTHONPATH=tests python -m conformance.page --check  # fails where it is stale
"""

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path

from conformance.faulty.faults import FAULTS
from conformance.faulty.forms import OPERATORS
from conformance.survey import PRODUCTS_LIMIT, Seen, small_cases, survey

PAGE = Path(__file__).resolve().parents[2] / "docs/reference/conformance-faults.md"
SUITES = ("smoke", "standard")
CHECKS = {
    "exact": "integers whose sums are equal in every order",
    "rounding": "the bound of each element's sum",
    "written": "an output still has a NaN from before the call",
    "gaps": "storage between elements changed",
    "untouched": "an input or a masked output changed",
    "repeats": "equal calls returned different bits",
    "status": "an error is missing or has another code",
}
_INTRODUCTION = f"""# Faults that the suites catch

For kernel developers who want to know what the suites can see.

`make faults-page` generates this page. Each row is a right kernel with one planted fault
(tests/conformance/faulty). It runs the calls of a suite with seed 0 that have at most
{PRODUCTS_LIMIT:,} products. *Caught by* is the number of cases that fail, of those in which the
fault changes a bit or a code at all. *Operators* and *layers and checks* count the caught cases of
`standard`.

"""
_MISSES = f"""
The remaining cases have no wrong result. A sum that is rounded twice, or flushed to 0, may be as
close to the right one as a sum in another order. A bit that a race changes may be one of those.
Where the operands' infinities and NaNs make every sum NaN, nothing else can be seen. A sum that
misses a rounding on its way to a wider dtype is closer to the right one, but for results beyond the
range of the dtype between them (*wide results*). Most cases of
`smoke` are integers, and most precisions sum those exactly, so it sees less rounding.

`make conformance-faults` also runs right kernels over 20 seeds of `standard`: our own on every
profile, PyTorch's and ONNX Runtime's on the CPU (the targets `torch` and `onnxruntime`) in FLOAT
and BF16. None of them may fail. Cases of at most {PRODUCTS_LIMIT:,} products run on each seed, the
others on one seed, which follows from the id: no case is left out. A seed takes some 25 s of one
core. These libraries deviate from the contract in three ways, which are no false alarms:

- PyTorch adds partial sums of FLOAT16 in FLOAT16, in convolutions and where columns are folded. It
  folds columns of BF16, and adds the taps of (T, B, C), in BF16; the target does so in FLOAT. With
  `accumulator="float16"` for the rounding layer, all cases of FLOAT16 pass that fail with seed 0.
- PyTorch multiplies the padding in FLOAT: 0 times infinity is NaN. Those calls are left out.
- Processors with instructions for BF16 flush its subnormal numbers to 0. Times infinity that is
  NaN, where the product is an infinity. Calls with both are left out.
"""
_EXAMPLES = """
## Cases to try

For each fault, one case of every operator, layer and check that catches it:

"""
_CELLS = 8  # between and around the bars of a row of the table


def main() -> int:
    """Writes the page, or compares; returns the exit status."""
    parser = argparse.ArgumentParser(description="The page of faults")
    parser.add_argument("--check", action="store_true", help="write nothing; fail when stale")
    is_check = parser.parse_args().check
    seen = {suite: _seen(suite) for suite in SUITES}
    text = page(seen)
    messages = missed(seen["standard"])
    if not is_check:
        PAGE.write_text(text)
    elif PAGE.read_text() != text:
        messages.append(
            "stale: docs/reference/conformance-faults.md; run python -m conformance.page"
        )
    sys.stdout.write("".join(f"{line}\n" for line in messages))
    return 1 if messages else 0


def page(seen: Mapping[str, Mapping[str, Seen]]) -> str:
    """The whole page from what was seen in each suite."""
    checks = "".join(f"| `{name}` | {meaning} |\n" for name, meaning in CHECKS.items())
    rows = "".join(f"| {' | '.join(_row(name, seen))} |\n" for name in FAULTS)
    counts = (f"caught by `{suite}`" for suite in SUITES)
    head = ("fault", "what is wrong", *counts, "operators", "layers and checks")
    cases = "".join(_cases(name, row) for name, row in seen["standard"].items() if row.examples)
    return (
        f"{_INTRODUCTION}| layer or check | it reports |\n|---|---|\n{checks}\n"
        f"| {' | '.join(head)} |\n{'|---' * len(head)}|\n{rows}{_MISSES}{_EXAMPLES}{cases}"
    )


def layers_named(text: str) -> dict[str, set[str]]:
    """The layers and checks that catch each fault, by the page."""
    rows = ([cell.strip() for cell in line.split("|")] for line in text.splitlines())
    counted = {row[1]: row[-2].split(", ") for row in rows if len(row) == _CELLS}
    return {
        name: {one.rpartition(" ")[0] for one in counted[name] if one}
        for name in FAULTS
        if name in counted
    }


def examples(text: str) -> dict[str, list[str]]:
    """Ids of the cases that the page names for each fault."""
    rows = (line.partition(": ") for line in text.splitlines() if line.startswith("- "))
    return {
        name.removeprefix("- "): [one.strip("`") for one in ids.split(", ")]
        for name, _, ids in rows
        if name.removeprefix("- ") in FAULTS
    }


def missed(seen: Mapping[str, Seen]) -> list[str]:
    """The faults that no case catches, by operator where they show."""
    return [
        f"not caught: {name} of {operator}"
        for name, row in seen.items()
        for operator in row.shows or ("any operator",)
        if not row.caught[operator]
    ]


def _seen(suite: str) -> dict[str, Seen]:
    found = {name: Seen() for name in FAULTS}
    survey(small_cases(suite), 0, found)
    return found


def _row(name: str, seen: Mapping[str, Mapping[str, Seen]]) -> list[str]:
    rows = [seen[suite][name] for suite in SUITES]
    counts = [f"{row.caught.total()} of {row.shows.total()}" for row in rows]
    found_by = [
        ", ".join(f"{key} {found[key]}" for key in keys if found[key])
        for keys, found in ((OPERATORS, rows[-1].caught), (CHECKS, rows[-1].by))
    ]
    return [name, FAULTS[name].description, *counts, *found_by]


def _cases(name: str, row: Seen) -> str:
    """A case of each operator and each layer, as few as that takes."""
    keys = [key for key in (*OPERATORS, *CHECKS) if key in row.examples]
    ids = dict.fromkeys(row.examples[key] for key in keys)
    return f"- {name}: {', '.join(f'`{one}`' for one in ids)}\n"


if __name__ == "__main__":
    sys.exit(main())
