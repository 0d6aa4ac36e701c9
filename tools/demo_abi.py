"""make demo-abi: every operator of aclnn through the C library, beside the SDK, bit by bit."""

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from rich.console import Console
from rich.table import Table

from opserve_client import Client
from opserve_client.abi.build import build
from opserve_client.abi.operator_functions import functions
from opserve_client.conform.targets.aclnn import AclnnTarget
from opserve_client.conform.targets.device import DeviceTarget, SessionOptions
from opserve_client.conform.trial import at_once
from opserve_client.private_service import private_service
from opserve_kernels.cases.arrays import memory_of
from opserve_kernels.cases.case import Case
from opserve_kernels.cases.suites import smoke
from opserve_kernels.conformance.target import Ran, Refused, Target

PROFILE = "ascend910b"


def main() -> None:
    """Prints a table: an operator a line, with its calls and those that are equal."""
    operators = {function.operator: function.call for function in functions()}
    with TemporaryDirectory() as folder, private_service(devices=f'["{PROFILE}"]') as service:
        library = Path(folder)
        build(library, compiler=os.environ.get("CXX", "g++"))
        os.environ |= {"OPSERVE_ADDRESS": service.rest, "OPSERVE_ABI_DEVICES": PROFILE}
        ours = AclnnTarget(library / "lib")
        options = SessionOptions(documented_rules="warn")
        sdk = DeviceTarget(Client(service.rest), PROFILE, options)
        cases = [case for case in smoke().cases if case.operator in operators]
        found = Counter((case.operator, outcome) for case, outcome in compared(cases, ours, sdk))
        sdk.close()
        ours.close()
    table = Table("C function", "equal bytes", "same code", "different", title="C library and SDK")
    for operator, call in operators.items():
        counts = [found[operator, outcome] for outcome in ("bytes", "code", "different")]
        table.add_row(call, *map(str, counts))
    Console().print(table)
    raise SystemExit(any(outcome == "different" for _, outcome in found))


def compared(cases: list[Case], ours: AclnnTarget, sdk: Target) -> Iterator[tuple[Case, str]]:
    """Yields each case that C can state, and whether both give the same."""
    for case in cases:
        if case.profile == PROFILE and not ours.skips(case):
            before = {} if case.is_refused else memory_of(case, 0)
            one, other = (at_once(run.run(case, before, read=list(before))) for run in (ours, sdk))
            if isinstance(one, Refused) and isinstance(other, Refused):
                same = one.code.number == other.code.number
                yield case, "code" if same else "different"
            elif isinstance(one, Ran) and isinstance(other, Ran):
                same = all(
                    np.array_equal(one.storages[name].view(np.uint8), storage.view(np.uint8))
                    for name, storage in other.storages.items()
                )
                yield case, "bytes" if same else "different"
            else:
                yield case, "different"


if __name__ == "__main__":
    main()
