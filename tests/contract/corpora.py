"""Cases of unrelated projects; tests/corpora/README.md names each source and its licence."""

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Case = dict[str, Any]
FOLDER = Path(__file__).parents[1] / "corpora"


def cases(corpus: str) -> list[Case]:
    """The cases of a corpus."""
    return [json.loads(line) for line in (FOLDER / f"{corpus}.jsonl").read_text().splitlines()]


def stored_case(case_id: str) -> Case:
    """A case of ONNX with the attributes of its node."""
    return next(case for case in cases("onnx_nodes") if case["case_id"] == case_id)


def stored_arrays(case: Case) -> dict[str, NDArray[np.float32]]:
    """The arrays that a case ships, by the names of its own project: X, W, B, Y."""
    corpus = case["case_id"].partition("-")[0]
    prefix = f"{case['case_id']}/"
    with np.load(FOLDER / f"{corpus}.npz", allow_pickle=False) as arrays:
        names = [name for name in arrays.files if name.startswith(prefix)]
        return {name.removeprefix(prefix): arrays[name] for name in names}
