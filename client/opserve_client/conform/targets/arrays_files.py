"""Arrays of a case in .npz files; BF16 is stored as uint16 bits."""

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from opserve_client.array_files import read_arrays
from opserve_client.file_errors import sentence_of
from opserve_kernels.cases.arrays import Placed, arrays_of, plain_inputs, typed_outputs
from opserve_kernels.cases.case import Case
from opserve_kernels.cases.fill import Array
from opserve_kernels.cases.suite import Suite


def write_inputs(case: Case, tensors: Mapping[str, Placed], path: Path) -> None:
    """Writes the inputs as contiguous arrays."""
    with path.open("wb") as file:
        np.savez(file, allow_pickle=False, **plain_inputs(case, tensors))


def write_case(case: Case, suite: Suite, folder: Path) -> None:
    """Writes a case of a suite to ID.json and its inputs to ID.npz.

    A call that must be rejected has no inputs.
    """
    text = json.dumps(case.to_json(), indent=1)
    Path(folder, f"{case.id}.json").write_text(text, encoding="utf-8")
    if not case.is_refused:
        arrays = arrays_of(case, suite.seed, suite.recorded(case))
        write_inputs(case, arrays, Path(folder, f"{case.id}.npz"))


def read_outputs(case: Case, path: Path) -> Mapping[str, Array]:
    """Reads those outputs of a case that are in a file.

    Raises:
        ValueError: The file is no .npz file of plain arrays.
    """
    try:
        found = read_arrays(path)
    except OSError as error:
        raise ValueError(sentence_of(error)) from error
    if not isinstance(found, dict):
        reason = f"{path} is an .npy file: write the outputs by name with numpy.savez."
        raise ValueError(reason)  # noqa: TRY004  a value of the file
    return typed_outputs(case, found)
