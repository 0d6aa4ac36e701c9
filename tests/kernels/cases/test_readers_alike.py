"""Both readers: options of a caller, and the documented refusals."""

import re
from pathlib import Path

from kernels.cases.read_cases import only
from opserve_kernels.cases.calls import Setting
from opserve_kernels.cases.case import Kind
from opserve_kernels.cases.readers.benchdnn import read_benchdnn
from opserve_kernels.cases.readers.miopen import read_miopen

ROOT = Path(__file__).resolve().parents[3]


def test_cases_have_the_requested_profile_and_fill() -> None:
    setting = Setting(profile="reference", kind=Kind.NORMAL, tags=("mine",))

    for read in (read_benchdnn("ic4oc4_ih6kh3", setting), read_miopen("conv -n 2", setting)):
        case = only(read)
        assert (case.profile, case.kind, case.tags) == ("reference", Kind.NORMAL, ("mine",))


def test_the_page_lists_the_reasons_of_the_readers() -> None:
    page = (ROOT / "docs/reference/conformance-cases.md").read_text()
    rows = re.findall(r"^\| (benchdnn|miopen) \| `(.+)` \| (.+) \|$", page, re.MULTILINE)

    readers = {"benchdnn": read_benchdnn, "miopen": read_miopen}
    assert {form for form, _, _ in rows} == readers.keys()
    for form, line, reason in rows:
        assert [refused.reason for refused in readers[form](line).refused] == [reason]
