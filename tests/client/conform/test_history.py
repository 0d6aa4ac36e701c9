"""opserve conform with the history of a service: runs are sent there, named, and compared with."""

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from unittest import mock

import pytest

from benchmarks.service_with_keys import empty_store
from client.conform.sample_results import (
    SAMPLE,
    failed,
    fold,
    folded,
    last_column_wrong,
    nothing_wrong,
    run,
)
from client.conform.test_command_line import (
    CASES,
    RIGHT,
    WRONG,
    Capture,
    conform,
    suite,
)
from opserve_client import Client
from opserve_client.conform import history
from opserve_client.conform.record import Result, read_record, write_record
from opserve_client.conform.targets.named import Access
from opserve_client.private_service import Addresses, private_service
from opserve_kernels.verdict.verdict import Status

pytestmark = pytest.mark.system
__all__ = ["suite"]  # a fixture of every test
DEVICES = {"devices": '["reference"]'}


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Addresses]:
    url = empty_store(tmp_path_factory.mktemp("history"))
    with private_service(store_url=url, **DEVICES) as addresses:
        yield addresses


@pytest.fixture(scope="module")
def strict(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Addresses]:
    """Takes no run."""
    url = empty_store(tmp_path_factory.mktemp("history"))
    limit = {"conformance_report_bytes_limit": "10"}
    with private_service(store_url=url, **limit, **DEVICES) as addresses:
        yield addresses


def tried(address: str, target: str, *more: str | Path) -> int:
    at = ("--suite", "mine.jsonl", "--server", address, "--jobs", "1")
    return conform("run", *at, "--target", target, *more)


@pytest.mark.parametrize("api", ["grpc", pytest.param("rest", marks=pytest.mark.slow)])
def test_a_run_is_stored_in_the_history_and_compared_there(
    kept: Addresses, api: str, capsys: Capture
) -> None:
    address = kept.grpc if api == "grpc" else kept.rest
    server = ("--server", address)
    assert tried(address, RIGHT, "--folder", "right", "--history", f"cli/{api}") == 0
    found = re.search(r"added run ([0-9a-f]{16}) to the history of cli", capsys.readouterr().err)
    assert found is not None
    first = f"service:{found[1]}"
    with Client(address) as client:
        (begun,) = client.conformance.list_runs(f"cli/{api}").runs
    record = read_record(Path("right/record.jsonl"))
    header = record.header
    assert (begun.id, begun.origin, begun.tool) == (found[1], "REPORTED", f"opserve {header.tool}")
    assert (begun.suite, begun.seed, begun.digest) == ("mine", 3, header.digest)
    assert begun.cases == len(CASES)
    assert conform("baseline", api, first, *server) == 0
    at = ("--baseline", f"service:{api}", "--history", f"cli/{api}", "--folder", "wrong")
    assert tried(address, WRONG, *at) == 1
    assert "new failures: 2" in capsys.readouterr().out
    assert conform("compare", first, "wrong", *server) == 1
    assert conform("compare", f"service:{api}", "right", *server) == 0
    assert conform("baseline", api, "wrong", *server, "--history", f"cli/{api}") == 0
    capsys.readouterr()
    assert conform("compare", f"service:{api}", first, *server, "--json") == 0
    rows = json.loads(capsys.readouterr().out)
    assert (rows["fixed"], rows["same_suite"]) == ([case.id for case in CASES], True)
    assert tried(address, WRONG, "--baseline", f"service:{api}") == 0
    with Client(address) as client:
        (moved,) = (one for one in client.conformance.list_baselines() if one.name == api)
        newest = client.conformance.list_runs(f"cli/{api}").runs[0]
    assert moved.run == newest.id


def test_the_history_is_shown_with_its_names_until_one_is_forgotten(
    kept: Addresses, capsys: Capture
) -> None:
    server = ("--server", kept.grpc)
    assert tried(kept.grpc, RIGHT, "--folder", "shown", "--history", "shown/one") == 0
    assert conform("baseline", "shown", "shown", *server, "--history", "shown/one") == 0
    capsys.readouterr()

    def listed() -> list[tuple[str, str, str]]:
        assert conform("runs", "shown/one", *server, "--json") == 0
        rows = json.loads(capsys.readouterr().out)
        return [(row["target"], row["results"], row["baselines"]) for row in rows]

    unnamed = ("shown/one", "2 PASSED", "")
    assert listed() == [("shown/one", "2 PASSED", "shown"), unnamed]
    assert conform("forget", "shown", *server) == 0
    assert listed() == [unnamed, unnamed]
    assert conform("forget", "shown", *server) == 2
    assert conform("runs", *server, "--limit", "1") == 0
    assert capsys.readouterr().out.splitlines()[0].split()[:3] == ["begun", "run", "target"]


def test_verified_outputs_are_stored_in_the_history(kept: Addresses, tmp_path: Path) -> None:
    (tmp_path / "outputs").mkdir()
    at = ("--suite", "mine.jsonl", "--server", kept.grpc, "--history", "elsewhere")
    assert conform("verify", "outputs", *at) == 2  # there are none, so that none is judged
    with Client(kept.grpc) as client:
        (begun,) = client.conformance.list_runs("elsewhere").runs
    assert [(one.status, one.cases) for one in begun.counts] == [("UNIMPLEMENTED", len(CASES))]


@pytest.mark.parametrize("folder", [pytest.param(True, marks=pytest.mark.slow), False])
def test_a_run_that_cannot_be_sent_stays_and_is_sent_later(
    kept: Addresses, strict: Addresses, capsys: Capture, folder: bool
) -> None:
    more = ("--folder", "mine") if folder else ()
    assert tried(strict.grpc, RIGHT, "--history", "late", *more) == 2
    captured = capsys.readouterr()
    assert "cases: 2 passed" in captured.out
    found = re.search(
        r"history: .*run has more than 10 bytes.*; the record is saved, send it later: "
        r"opserve conform send (\S+) --server (\S+) --history late\n",
        captured.err,
    )
    assert found is not None
    assert found[2] == strict.grpc
    target = f"late-{folder}"
    assert conform("send", found[1], "--server", kept.grpc, "--history", target) == 0
    with Client(kept.grpc) as client:
        (begun,) = client.conformance.list_runs(target).runs
        results = client.conformance.list_results(begun.id)
    assert [one.case for one in results] == [case.id for case in CASES]


def test_options_that_the_service_rejects_are_reported_before_the_run(
    kept: Addresses, service: Addresses, capsys: Capture
) -> None:
    with mock.patch.object(history, "send") as send:
        for server, more, message in (
            (
                "",
                ("--history", "mine"),
                "history needs a service: give --server too.",
            ),
            (kept.grpc, ("--history", "a b"), "target does not accept 'a b'"),
            (service.grpc, ("--history", "mine"), "This service has no store"),
            (
                "",
                ("--baseline", "service:main"),
                "service:main needs a service: give --server too.",
            ),
            (kept.grpc, ("--baseline", "service:none"), "There is no run 'none'"),
        ):
            assert tried(server, RIGHT, *more) == 2
            captured = capsys.readouterr()
            assert message in captured.err
            assert not captured.out
    send.assert_not_called()


def test_a_name_is_for_a_run_of_the_service(kept: Addresses, capsys: Capture) -> None:
    server = ("--server", kept.grpc)
    write_record(SAMPLE, Path("sample.jsonl"))
    for arguments, message in (
        (("main", "sample.jsonl"), "give --history"),
        (("main", "service:none"), "There is no run 'none'"),
        (("a b", "service:0123456789abcdef"), "name does not accept 'a b'"),
        (("main", "none"), "There is no file or folder 'none'."),
    ):
        assert conform("baseline", *arguments, *server) == 2
        assert message in capsys.readouterr().err


def sent(kept: Addresses, *results: Result, target: str) -> list[tuple[str, str, int]]:
    """Case, reason and length of the verdict of each result that the service then has."""
    digest = f"sha256:{'0' * 64}"
    record = run(*results)
    record = replace(record, header=replace(record.header, digest=digest))
    begun = history.send(record, target, Access(address=kept.grpc))
    with Client(kept.grpc) as client:
        listed = client.conformance.list_results(begun.id)
    return [(one.case, one.reason, len(one.verdict)) for one in listed]


def test_any_output_of_a_target_can_be_sent(kept: Addresses) -> None:
    reason = "a\n\x1b[31m\0 b" + "é" * 5000
    (result,) = sent(kept, failed(Status.ERROR, reason), target="hostile")
    assert result[1] == ("a ?[31m? b" + "é" * 1024)[:1024]
    (other,) = sent(kept, failed(Status.ERROR, "x" * 200_000), target="hostile")
    assert other[1:] == ("x" * 1024, 0)


def test_verdicts_of_failures_are_sent_within_the_limit(
    kept: Addresses, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = [folded(last_column_wrong, case=fold(n)) for n in (1, 2, 3)]
    others = [folded(nothing_wrong, case=fold(4)), failed(Status.SKIPPED, "too large")]
    sizes = [size for *_, size in sent(kept, *wrong, *others, target="room")]
    assert [bool(size) for size in sizes] == [True, True, True, False, False]
    monkeypatch.setattr(history, "_VERDICTS", sum(sizes) - 1)
    cut = [size for *_, size in sent(kept, *wrong, *others, target="room")]
    assert cut == [*sizes[:2], 0, 0, 0]
