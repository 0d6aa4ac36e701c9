"""docs/reference/conformance-faults.md: which suite sees each fault, and what of a verdict tells.

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
    "exact": "integers whose sums every order makes alike",
    "rounding": "the bound of each element's sum",
    "written": "an output held a NaN that is still there",
    "gaps": "storage between elements changed",
    "untouched": "an input or a masked output changed",
    "repeats": "equal calls gave different bits",
    "status": "a refusal is missing or has another code",
}
_INTRODUCTION = f"""# Faults that the suites catch

For kernel developers who want to know what the suites can see.

Written by `make faults-page`, not by hand. Each row is a kernel that is right but for one
fault (tests/conformance/faulty), run on the calls of a suite with seed 0, those of at most
{PRODUCTS_LIMIT:,} products. *Caught* is in how many cases something complains, of those where the
fault changes a bit or a code at all; then of which operators those of `standard` are, and which
layers and checks complain in how many.

"""
_MISSES = f"""
What is left over is no wrong result: a sum that is rounded twice, or flushed to 0, may well be as
near to the right one as a sum in another order is; a bit that a race changes may be one of those;
where the operands' infinities and NaNs make every sum no number, nothing else can be seen.
`smoke` draws integers only, whose sums most precisions have exactly: it sees hardly any rounding.

The same command runs kernels that are right over 20 seeds of `standard`: our own on every profile,
PyTorch's and ONNX Runtime's on the CPU (the targets `torch` and `onnxruntime`) in FLOAT and BF16.
None may be accused. Cases of at most {PRODUCTS_LIMIT:,} products run on each seed, the others on
one of them, which follows from the id: no case is left out. A seed takes some 25 s of one core.
What those libraries do otherwise than the contract says is told, and is no false alarm:

- PyTorch adds partial sums of FLOAT16 in FLOAT16, in convolutions and where columns are folded, and
  folds columns of BF16 in BF16, which the target does in FLOAT: with `accumulator="float16"` for
  the rounding layer all passes that fails with seed 0.
- PyTorch multiplies the padding in FLOAT: 0 by an infinity is no number. Those calls are left out.
- Processors with instructions for BF16 take its subnormal numbers for 0: by an infinity that is no
  number, where the product is an infinity. Calls with both are left out.
"""
_EXAMPLES = """
## Cases to try

For each fault a case of every operator, layer and check that catches it:

"""
_CELLS = 8  # between and around the bars of a row of the table


def main() -> int:
    """Writes the page, or compares; returns the exit status."""
    parser = argparse.ArgumentParser(description="The page of faults")
    parser.add_argument("--check", action="store_true", help="write nothing; fail when stale")
    is_check = parser.parse_args().check
    seen = {suite: _seen(suite) for suite in SUITES}
    text = page(seen)
    told = missed(seen["standard"])
    if not is_check:
        PAGE.write_text(text)
    elif PAGE.read_text() != text:
        told.append("stale: docs/reference/conformance-faults.md; run python -m conformance.page")
    sys.stdout.write("".join(f"{line}\n" for line in told))
    return 1 if told else 0


def page(seen: Mapping[str, Mapping[str, Seen]]) -> str:
    """The whole page from what was seen in each suite."""
    told = "".join(f"| `{name}` | {meaning} |\n" for name, meaning in CHECKS.items())
    rows = "".join(f"| {' | '.join(_row(name, seen))} |\n" for name in FAULTS)
    counts = (f"caught by `{suite}`" for suite in SUITES)
    head = ("fault", "what is wrong", *counts, "operators", "layers and checks")
    cases = "".join(_cases(name, row) for name, row in seen["standard"].items() if row.examples)
    return (
        f"{_INTRODUCTION}| layer or check | what it goes by |\n|---|---|\n{told}\n"
        f"| {' | '.join(head)} |\n{'|---' * len(head)}|\n{rows}{_MISSES}{_EXAMPLES}{cases}"
    )


def layers_told(text: str) -> dict[str, set[str]]:
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
    told = [
        ", ".join(f"{key} {found[key]}" for key in keys if found[key])
        for keys, found in ((OPERATORS, rows[-1].caught), (CHECKS, rows[-1].by))
    ]
    return [name, FAULTS[name].told, *counts, *told]


def _cases(name: str, row: Seen) -> str:
    """A case of each operator and each layer, as few as that takes."""
    keys = [key for key in (*OPERATORS, *CHECKS) if key in row.examples]
    ids = dict.fromkeys(row.examples[key] for key in keys)
    return f"- {name}: {', '.join(f'`{one}`' for one in ids)}\n"


if __name__ == "__main__":
    sys.exit(main())
