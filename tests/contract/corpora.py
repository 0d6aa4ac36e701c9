"""Cases of unrelated projects, read from the corpora folder where it is at hand."""

import importlib.util
import json
import os
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

Case = dict[str, Any]
FOLDER = Path(
    os.environ.get(
        "OPSERVE_CORPORA", Path(__file__).parents[2].resolve().parent / "shared" / "corpora"
    )
)
needs_corpora = pytest.mark.skipif(
    not FOLDER.is_dir(),
    reason="the corpora of other projects are not here; OPSERVE_CORPORA names their folder",
)


def cases(corpus: str) -> list[Case]:
    """The cases of a corpus in the form of its own reader, which leaves files to the collector."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        return list(_reader()(corpus))


def stored_case(case_id: str) -> Case:
    """A case of ONNX that the reader leaves out, as it is stored."""
    lines = (FOLDER / "onnx_backend.jsonl").read_text().splitlines()
    return next(case for case in map(json.loads, lines) if case["case_id"] == case_id)


def _reader() -> Callable[[str], Iterator[Case]]:
    spec = importlib.util.spec_from_file_location("corpora_load", FOLDER / "load.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    calls: Callable[[str], Iterator[Case]] = module.calls
    return calls


def stored_arrays(case: Case) -> dict[str, NDArray[np.float32]]:
    """The arrays that a case ships, by the names of its own project: X, W, B, Y."""
    stored = case.get("npz") or case["expect"].removeprefix("npz:")
    with np.load(FOLDER / stored, allow_pickle=False) as arrays:
        return {name: arrays[name] for name in arrays.files}
