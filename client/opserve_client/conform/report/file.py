"""The report as one HTML file: markup, style, scripts, and data in base64."""

import json
import re
import zlib
from base64 import b64encode
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from string import Template

from opserve_client.conform.known import NOTHING_KNOWN, Expectations
from opserve_client.conform.record import RunRecord
from opserve_client.conform.report.content import chunks_of, index_of
from opserve_kernels.conformance.comparison import Outcomes

_SHARED = ("elements.js", "maps.js", "case.js")
"""Modules that the service's dashboard loads, too, in order of use."""
_SCRIPTS = ("data.js", "table.js", "details.js", "app.js")  # in order of use
_MODULE_WORDS = re.compile(r"^import .*\n|^export (?=const |function )", re.MULTILINE)
_LEVEL = 6  # of zlib: higher levels take twice the time and save some per cent


def write_report(
    run: RunRecord,
    path: Path,
    *,
    baseline: Outcomes | None = None,
    expected: Expectations = NOTHING_KNOWN,
) -> None:
    """Writes the report of a run.

    Args:
        run: The run.
        path: Path of the HTML file.
        baseline: Outcomes of an earlier run to compare with.
        expected: Known failures of the run.
    """
    path.write_text(report_of(run, baseline=baseline, expected=expected), encoding="utf-8")


def report_of(
    run: RunRecord,
    *,
    baseline: Outcomes | None = None,
    expected: Expectations = NOTHING_KNOWN,
) -> str:
    """Returns the report of a run as HTML without network requests.

    Text from a target is only in packed data, so it cannot close an element. The page inserts it as
    text, and the content security policy of the page allows no other script.
    """
    data = [_packed('id="index"', index_of(run, baseline, expected))]
    data += [_packed('class="chunk"', chunk) for chunk in chunks_of(run, baseline, expected)]
    style = _shared("theme.css") + _read("page.css")
    modules = _MODULE_WORDS.sub("", "".join(map(_shared, _SHARED)))  # one script, as its own are
    script = modules + "".join(map(_read, _SCRIPTS))
    policy = (
        f"default-src 'none'; script-src '{_digest(script)}'; style-src '{_digest(style)}'; "
        "base-uri 'none'; form-action 'none'; "
        "require-trusted-types-for 'script'; trusted-types 'none'"
    )
    return Template(_read("page.html")).substitute(
        policy=policy, style=style, script=script, data="\n".join(data)
    )


def _packed(mark: str, value: object) -> str:
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    packed = b64encode(zlib.compress(text.encode(), _LEVEL)).decode()
    return f'<script type="application/octet-stream" {mark}>{packed}</script>'


def _read(name: str) -> str:
    page = files("opserve_client.conform.report") / "page"
    return (page / name).read_text(encoding="utf-8")


def _shared(name: str) -> str:
    page = files("opserve_kernels.conformance") / "page"
    return (page / name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    return f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}"
