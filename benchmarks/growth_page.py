"""The section of docs/reference/capacity.md on growth and load, from a run of `make bench`."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.growth import FLAT, SIZES, Growth
from benchmarks.measure import Figure
from benchmarks.open_loop import LATENCY, PERCENTS, RATE, SHARE
from benchmarks.report import Row, short

PAGE = Path(__file__).resolve().parents[1] / "docs/reference/capacity.md"
BEGIN, END = "<!-- growth: make bench -->\n", "<!-- end of growth -->"
WIRES = ("gRPC", "HTTP")


def write_page(grown: Sequence[Growth], rows: Sequence[Row], *, setting: str) -> Path:
    """Replaces the section; returns the path of the page.

    Args:
        grown: Rows of the table.
        rows: All rows of the benchmark, of which some are latencies under load.
        setting: Machine and rounds.
    """
    before, _, rest = PAGE.read_text().partition(BEGIN)
    _, end, after = rest.partition(END)
    assert end, f"{PAGE.name} has {BEGIN.strip()} and {END}"
    PAGE.write_text(f"{before}{BEGIN}{section(grown, rows, setting=setting)}{END}{after}")
    return PAGE


def section(grown: Sequence[Growth], rows: Sequence[Row], *, setting: str) -> str:
    """Returns the section: the table of growth, then latencies under load."""
    head = ["objects", "p50 of", "p50, ms", *(f"beside {size:,}" for size in SIZES), "reason"]
    cells = [head, ["---"] * len(head), *(_cells(row) for row in grown)]
    table = "".join(f"| {' | '.join(row)} |\n" for row in cells)
    return f"Measured on {setting}.\n\n{table}\n{''.join(_latencies(rows))}"


def _cells(row: Growth) -> list[str]:
    ratios = [f"{row.ratios[size].value:.2f}" for size in SIZES]
    return [row.kind.name, row.what, short(row.p50_ms), *ratios, reason(row)]


def reason(row: Growth) -> str:
    """Returns why a row grows beyond FLAT; empty for a flat one."""
    if row.goal.value <= FLAT:
        return ""
    return row.kind.reason or f"not explained: more than {FLAT:.2f}"


def _latencies(rows: Sequence[Row]) -> Iterator[str]:
    subjects = {row.what: row.subject for row in rows}
    for wire in WIRES:
        rate = subjects[RATE.format(wire)]
        found = [_latency(subjects, wire, percent) for percent in PERCENTS]
        yield (
            f"- Over {wire}, at {SHARE:.0%} of the {short(rate.value)} calls/s that four clients "
            f"reach: {', '.join(found)}\n"
        )


def _latency(subjects: "dict[str, Figure]", wire: str, percent: float) -> str:
    return f"p{percent:g} {short(subjects[LATENCY.format(wire, percent)].value)} ms"
