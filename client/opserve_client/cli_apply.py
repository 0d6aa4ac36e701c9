"""The command `opserve apply`: tenants, quotas, keys and identities as a file describes them."""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import time
from typing import TYPE_CHECKING, Annotated

import typer

from opserve_client import extras
from opserve_client.access import DEFAULT_ADDRESS
from opserve_client.cli_connection import Address, connected
from opserve_client.cli_rows import AsJson, printable, show_json
from opserve_client.errors import CallTimedOut, OpserveError, is_transient
from opserve_client.files import FileError
from opserve_kernels.status import ExitStatus

if TYPE_CHECKING:
    from opserve_client.apply.changes import Change, NewKey

Check = Annotated[
    bool,
    typer.Option(
        "--check",
        "--dry-run",
        help="Show the differences and change nothing; the exit status is 1 if there are any.",
    ),
]
Yes = Annotated[bool, typer.Option("--yes", help="Apply the differences without a question.")]
Prune = Annotated[
    bool,
    typer.Option(
        "--prune",
        help="Also remove what the file does not have: tenants, and keys, identities and limits of "
        "its tenants. Default: they are left alone. The caller's own tenant is never pruned.",
    ),
]


def apply(  # noqa: PLR0913  # options of the command
    context: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="TEAMS.yaml", help="YAML file of tenants.")],
    *,
    check: Check = False,
    yes: Yes = False,
    prune: Prune = False,
    as_json: AsJson = False,
    address: Address = DEFAULT_ADDRESS,
) -> None:
    """Bring tenants, quotas, weights, keys and identities to the state in a file.

    Shows the differences first: on standard output with --check, else on standard error, because
    standard output then has the new keys. A second run with the same file changes nothing. The exit
    status is 0 if the service is as the file says, 1 if it is not, and 2 if the file is invalid.
    """
    extras.require("admin", need="opserve apply")
    from opserve_client.apply.changes import changes_to, read_state  # noqa: PLC0415  pydantic
    from opserve_client.apply.checks import check as check_document  # noqa: PLC0415  as above
    from opserve_client.apply.document import document_of  # noqa: PLC0415  as above
    from opserve_client.apply.source import read_source  # noqa: PLC0415  needs ruamel.yaml

    try:
        source = read_source(file)
        document = document_of(source)
        with connected(context, address) as client:
            state = read_state(client, now=time(), prune=prune)
            check_document(document, state, source, prune=prune)
            changes = changes_to(document, state, client.admin, folder=file.parent, prune=prune)
            _show_differences(changes, on_stderr=as_json or not check)
            is_wanted = bool(changes) and not check and (yes or _is_confirmed())
            outcome = _make(changes) if is_wanted else _Outcome()
    except FileError as error:
        for line in str(error).splitlines():
            sys.stderr.write(f"opserve apply: {printable(line)}\n")
        raise typer.Exit(ExitStatus.UNUSABLE) from error
    _show_outcome(changes, outcome, as_json=as_json)
    is_done = outcome.applied == len(changes)
    raise typer.Exit(ExitStatus.DONE if is_done else ExitStatus.FAILED)


@dataclass(slots=True, kw_only=True)
class _Outcome:
    """Number of changes that were applied, created keys, the error and its remedy."""

    applied: int = 0
    keys: list["NewKey"] = field(default_factory=list["NewKey"])
    error: str = ""
    remedy: str = ""


_AGAIN = (
    "Run the command again to apply the rest. Without an answer of the service, the failed change "
    "may be in force."
)
_CORRECT = "The applied changes stay. Correct the cause of the failed one before the next run."


def _make(changes: Sequence["Change"]) -> _Outcome:
    """Makes changes until one fails: created keys are shown in any case."""
    outcome = _Outcome()
    for change in changes:
        try:
            key = change.make()
        except (OpserveError, OSError) as error:
            outcome.error = _one_line(error)
            outcome.remedy = _AGAIN if _may_pass(error) else _CORRECT
            break
        except KeyboardInterrupt:
            outcome.error, outcome.remedy = "interrupted", _AGAIN
            break
        outcome.applied += 1
        if key is not None:
            outcome.keys.append(key)
    return outcome


def _may_pass(error: OpserveError | OSError) -> bool:
    """Returns whether the same change may succeed in another run."""
    return isinstance(error, CallTimedOut) or (
        isinstance(error, OpserveError) and is_transient(error)
    )


def _is_confirmed() -> bool:
    """Asks on the terminal; no answer means no."""
    try:
        return typer.confirm("Apply these changes?", err=True)
    except typer.Abort:
        sys.stderr.write("opserve apply: no answer, so nothing was changed; --yes confirms\n")
        return False


def _show_differences(changes: Sequence["Change"], *, on_stderr: bool) -> None:
    for line in [change.line for change in changes] or ["no differences"]:
        typer.echo(printable(line), err=on_stderr)


def _show_outcome(changes: Sequence["Change"], outcome: _Outcome, *, as_json: bool) -> None:
    if as_json:
        differences = [
            {"sign": one.sign, "subject": one.subject, "details": one.details} for one in changes
        ]
        keys = [
            {"caller": key.caller, "key": key.text or None, "file": key.file and str(key.file)}
            for key in outcome.keys
        ]
        show_json(
            {
                "changes": differences,
                "applied": outcome.applied,
                "keys": keys,
                "error": outcome.error or None,
            }
        )
    for key in outcome.keys if not as_json else ():
        if key.text:
            sys.stderr.write(f"Key of {key.caller}. Save it: it is not shown again.\n")
            typer.echo(f"{key.caller} {key.text}")
    if outcome.error:
        sys.stderr.write("".join(f"{line}\n" for line in _failure(changes, outcome)))


def _failure(changes: Sequence["Change"], outcome: _Outcome) -> Iterator[str]:
    """Yields what was applied, what failed and what was not tried."""
    lines = [printable(change.line) for change in changes]
    failed = outcome.applied
    yield f"opserve apply: applied {failed} of {len(lines)} changes"
    yield from (f"  applied: {line}" for line in lines[:failed])
    yield f"  failed: {lines[failed]}: {outcome.error}"
    yield from (f"  not applied: {line}" for line in lines[failed + 1 :])
    yield outcome.remedy


def _one_line(error: Exception) -> str:
    return printable(" ".join(str(error).split()))
