"""The cases of a run: a suite by name or from a file, and a selection of its cases."""

from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

from opserve_client.conform.targets.target import InfrastructureError
from opserve_client.file_errors import sentence_of
from opserve_kernels.cases.case import Case
from opserve_kernels.cases.suite import Suite, check_seed, read_suite
from opserve_kernels.conformance.selection import Wanted
from opserve_kernels.errors import InvalidArgument, closed
from opserve_kernels.user_input import choices


def suite_named(name: str, seed: int | None) -> Suite:
    """Returns a suite that is generated from the operators' contracts, or the suite in a file.

    Args:
        name: smoke, standard, exhaustive, a file of JSON lines, benchdnn:FILE, miopen:FILE or
            onnx:FOLDER, or msprobe:FOLDER.
        seed: Seed of the inputs; None means 0, or the seed in the file.

    Raises:
        InfrastructureError: There is no such suite, or the file is no suite.
        InvalidArgument: The seed is negative or above 2^63 - 1.
    """
    check_seed(seed or 0)
    # Both import every contract, which a wrong seed need not wait for.
    from opserve_client.conform.other_forms import FORMS, suite_of  # noqa: PLC0415
    from opserve_kernels.cases.suites import SUITES  # noqa: PLC0415

    if name in SUITES:
        return SUITES[name](seed or 0)
    form, _, other = name.partition(":")
    if other and form in FORMS:
        return suite_of(form, Path(other), seed or 0)
    path = Path(name)
    if not path.exists():
        forms = ", ".join(f"{form}:PATH" for form in FORMS)
        known = f"a file, {forms}, {choices(SUITES, name)}"
        raise InfrastructureError(closed(f"Unknown suite '{name}'; choose {known}"))
    try:
        suite = read_suite(path.read_text(encoding="utf-8"))
    except (InvalidArgument, UnicodeDecodeError) as error:
        raise InfrastructureError(f"{path}: {error}") from error
    except OSError as error:
        raise InfrastructureError(sentence_of(error)) from error
    return suite if seed is None else Suite(name=suite.name, seed=seed, cases=suite.cases)


def chosen(suite: Suite, wanted: Wanted) -> tuple[Case, ...]:
    """Returns the selected cases, in the suite's order.

    Raises:
        InfrastructureError: No case is selected.
    """
    found = wanted.of(suite.cases)
    if not found:
        of = f" of {', '.join(wanted.operators)}" if wanted.operators else ""
        like = f" that matches {', '.join(wanted.patterns)}" if wanted.patterns else ""
        raise InfrastructureError(
            f"suite {suite.name}: no case{of} has an id, source or tag{like}; `opserve conform "
            "cases` shows them. A pattern matches a whole text: use *word* for a part of it"
        )
    return found


def digest_of(cases: Sequence[Case]) -> str:
    """Returns the digest of the cases' ids: equal selections have equal digests."""
    ids = "\n".join(case.id for case in cases)
    return f"sha256:{sha256(ids.encode()).hexdigest()}"
