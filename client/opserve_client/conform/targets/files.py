"""Finished outputs as a target: "files:DIR", DIR/<case id>.npz of each case."""

from pathlib import Path

from opserve_client.conform.targets.arrays_files import read_outputs
from opserve_client.conform.targets.target import (
    Broken,
    InfrastructureError,
    Missing,
    Outcome,
    Ran,
    Tensors,
)
from opserve_kernels.cases.case import Case


class FilesTarget:
    """A folder of outputs that somebody computed before.

    Args:
        folder: With a file for each case.
    """

    has_codes = False

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        if not folder.is_dir():
            raise InfrastructureError(f"target files:{folder}: no folder")

    def run(self, case: Case, tensors: Tensors) -> Outcome:  # noqa: ARG002  others look at them
        """Reads what is there."""
        path = self._folder / f"{case.id}.npz"
        if not path.exists():
            return Missing(reason=f"{path} is not there")
        try:
            return Ran(outputs=read_outputs(case, path))
        except ValueError as error:
            return Broken(reason=str(error))

    def close(self) -> None:
        """Nothing is held."""
