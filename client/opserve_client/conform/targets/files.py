"""Folders of outputs as targets: "files:DIR" with a file DIR/<case id>.npz for each case."""

from collections.abc import Collection
from pathlib import Path

from opserve_client.conform.targets.arrays_files import read_outputs
from opserve_client.conform.targets.target import InfrastructureError
from opserve_kernels.cases.case import Case
from opserve_kernels.conformance.target import Broken, Missing, Outcome, Ran, without_codes
from opserve_kernels.verdict.judge_case import Arrays


class FilesTarget:
    """A folder of finished outputs.

    Args:
        folder: Folder with a file for each case.
    """

    skips = staticmethod(without_codes)

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        if not folder.is_dir():
            raise InfrastructureError(f"target files:{folder}: there is no such folder")

    async def run(self, case: Case, before: Arrays, *, read: Collection[str]) -> Outcome:
        """Reads the outputs of a case."""
        del before, read  # the outputs are computed already
        return self._found(case, self._folder / f"{case.id}.npz")

    def close(self) -> None:
        """Does nothing: the target has no resources."""

    def _found(self, case: Case, path: Path) -> Outcome:
        if not path.exists():
            return Missing(reason=f"{path}: there is no such file")
        try:
            return Ran(outputs=read_outputs(case, path))
        except ValueError as error:
            return Broken(reason=str(error))
