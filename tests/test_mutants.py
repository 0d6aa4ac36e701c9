"""The tool that draws mutants: what it draws, changes and runs."""

import ast
import sqlite3
from pathlib import Path

import pytest
from coverage.numbits import nums_to_numbits

from tools.mutants.coverage_map import CoverageMap, load, record
from tools.mutants.drawing import PACKAGES, Mutant, claims, draw, files_of, mutants_of, shares
from tools.mutants.mutations import mutated, mutations_of
from tools.mutants.trial import Copy

SOURCE = '''\
def largest(values: list[int], limit: int = 8) -> int | None:
    """The largest of at most 8 values."""
    assert limit > 0
    if not values or len(values) > limit:
        report(f"größer als {limit + 1}")
        return None
    return max(values)
'''
CHUNKS = Path("protos/opserve/chunks.py")


def test_conditions_bounds_comparisons_calls_and_results_are_mutated() -> None:
    assert [(one.line, f"{one}") for one in mutations_of(SOURCE)] == [
        (1, "8 -> 9"),
        (4, "not values or len(values) > limit -> (not (not values or len(values) > limit))"),
        (4, "not values or len(values) > limit -> (not values and len(values) > limit)"),
        (4, "len(values) > limit -> (len(values) >= limit)"),
        (5, 'report(f"größer als {limit + 1}") -> pass'),
        (6, "return None -> return 1"),
        (7, "return max(values) -> return None"),
    ]


@pytest.mark.parametrize("package", PACKAGES, ids=str)
def test_a_mutation_changes_its_own_text_and_nothing_else(package: Path) -> None:
    path = files_of(package)[-1]
    source = path.read_text()
    for mutant in mutants_of(path):
        one = mutant.mutation
        changed = mutated(source, one).encode()
        after = one.begin + len(one.new.encode())
        restored = changed[: one.begin] + one.old.encode() + changed[after:]
        assert restored.decode() == source
        assert ast.dump(ast.parse(changed)) != ast.dump(ast.parse(source))


def test_a_seed_draws_the_same_mutants_of_executed_lines_and_another_seed_draws_others() -> None:
    executed = set(range(1, 2000, 2))
    drawn = [
        draw([Path("protos/opserve")], lambda _: executed, count=6, seed=seed) for seed in (1, 1, 2)
    ]
    assert drawn[0] == drawn[1] != drawn[2]
    assert {mutant.mutation.line for mutant in drawn[0]} <= executed
    assert len({(mutant.path, mutant.mutation.line) for mutant in drawn[0]}) == 6


def test_a_package_with_fewer_lines_than_its_share_gives_one_mutant_of_each() -> None:
    drawn = draw([Path("protos/opserve")], lambda _: set(range(40)), count=1000, seed=1)
    places = {(mutant.path, mutant.mutation.line) for mutant in drawn}
    assert 0 < len(drawn) == len(places) < 1000


def test_packages_have_mutants_in_proportion_to_their_lines() -> None:
    small, middle, large = Path("a"), Path("b"), Path("c")
    assert shares({small: 10, middle: 345, large: 645}, 100) == {small: 1, middle: 35, large: 64}


def test_tests_of_a_line_take_turns_by_file_the_likeliest_file_first() -> None:
    found = _map({
        "tests/client/test_chunks.py::test_slow|run": [28],
        "tests/client/test_chunks.py::test_quick|run": [28],
        "tests/server/test_other.py::test_other|run": [28],
        "tests/server/test_other.py::test_elsewhere|run": [40],
    })  # fmt: skip
    quick, slow = (f"tests/client/test_chunks.py::test_{name}" for name in ("quick", "slow"))
    other = "tests/server/test_other.py::test_other"
    assert found.tests(CHUNKS, 28, limit_s=100) == [quick, slow, other]
    assert found.tests(CHUNKS, 28, limit_s=2.5) == [quick, other]
    assert found.tests(CHUNKS, 28, limit_s=0.5) == [quick]
    assert found.lines(CHUNKS) == {28, 40}


def test_test_functions_of_a_file_take_turns_each_with_its_quickest_case_first() -> None:
    names = ["test_sum[a]", "test_sum[b]", "test_sum[slow]", "test_slow_write"]
    found = _map({f"tests/client/test_chunks.py::{name}|run": [28] for name in names})
    chosen = [test.partition("::")[2] for test in found.tests(CHUNKS, 28, limit_s=100)]
    assert chosen == ["test_sum[a]", "test_slow_write", "test_sum[b]", "test_sum[slow]"]


def test_half_of_the_time_is_for_the_likeliest_file_and_slow_tests_run_last() -> None:
    names = ["test_chunks.py::test_a", "test_chunks.py::test_b", "test_chunks.py::test_c"]
    others = ["test_other.py::test_slow", "test_third.py::test_a", "test_third.py::test_b"]
    found = _map({f"tests/client/{name}|run": [28] for name in (*names, *others)})

    def chosen(limit_s: float) -> list[str]:
        return [
            test.removeprefix("tests/client/") for test in found.tests(CHUNKS, 28, limit_s=limit_s)
        ]

    assert chosen(4) == [*names[:2], others[0]]
    assert chosen(14) == [*names, *others[1:], others[0]]


def test_a_line_outside_functions_maps_to_all_tests_of_its_root() -> None:
    found = _map({
        "tests/protos/test_chunks.py::test_one|run": [28],
        "tests/server/test_first_importer.py::test_two|run": [15],
        "tests/protos/test_other.py::test_three|run": [28],
    })  # fmt: skip
    tests = ["tests/protos/test_chunks.py::test_one", "tests/protos/test_other.py::test_three"]
    assert found.tests(CHUNKS, 15, limit_s=100) == tests


def test_a_line_of_a_process_that_a_test_started_maps_to_all_tests_of_the_file() -> None:
    found = _map({
        "tests/client/test_chunks.py::test_slow": [28],
        "tests/client/test_chunks.py::test_quick|run": [40],
        "tests/server/test_other.py::test_other|setup": [41],
        "tests/server/test_other.py::test_elsewhere|run": [40],
    })  # fmt: skip
    assert len(found.tests(CHUNKS, 28, limit_s=100)) == 2
    assert len(found.tests(CHUNKS, 41, limit_s=100)) == 2


@pytest.mark.slow
def test_a_line_that_a_forked_process_executes_maps_to_the_file_that_started_it(
    tmp_path: Path,
) -> None:
    calls = {"test_sum": "crc32c", "test_size": "WRITTEN.parts"}
    for name, function in calls.items():
        (tmp_path / f"{name}.py").write_text(
            "from multiprocessing import get_context\n"
            "from opserve.chunks import WRITTEN, crc32c\n"
            "def test_it():\n"
            f"    process = get_context('forkserver').Process(target={function}, args=(b'1',))\n"
            "    process.start()\n"
            "    process.join()\n"
            "    assert process.exitcode == 0\n"
            "def test_broken():\n"
            "    assert False\n"
        )
    files = [f"{tmp_path / name}.py" for name in calls]
    record(tmp_path / "map", [f"--rootdir={tmp_path}", *files])
    found = load(tmp_path / "map")
    lines = [line.strip() for line in CHUNKS.read_text().splitlines()]
    for name, text in (("test_sum", "return _value(np"), ("test_size", "value = 0")):
        [line] = [at for at, one in enumerate(lines, 1) if one.startswith(text)]
        assert found.tests(CHUNKS, line, limit_s=100) == [f"{name}.py::test_it"]
    assert not any("test_broken" in test for test in found.durations)


@pytest.mark.parametrize(
    ("without", "outcome"),
    [(0, "killed: time limit"), (None, "survived: its tests fail or take long without it too")],
)
def test_a_mutant_that_exceeds_the_limit_is_killed_where_its_tests_pass_well_within_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, without: int | None, outcome: str
) -> None:
    statuses, limits = [None, without], list[float]()

    def status(*_: object, limit_s: float) -> int | None:
        limits.append(limit_s)
        return statuses.pop(0)

    monkeypatch.setattr(Copy, "_pytest", status)
    (tmp_path / CHUNKS).parent.mkdir(parents=True)
    (tmp_path / CHUNKS).write_text("limit = 8\n")
    [mutant] = _mutants(tmp_path)
    assert Copy(tmp_path, tmp_path).try_mutant(mutant, ["test_it.py"], limit_s=300) == outcome
    assert limits == [300, 100]


NUMBER = "import runpy\nnumber = runpy.run_path('protos/opserve/chunks.py')['number']\n"
TESTS = {
    "test_good.py::test_good": "def test_good():\n    assert number() == 2\n",
    "test_other.py::test_blind": "def test_blind():\n    assert number is not None\n",
    "test_other.py::test_broken": "def test_broken():\n    assert number() == 5\n",
    "test_names.py::test_sign[2]": (
        "import pytest\n"
        "@pytest.mark.parametrize('one', [number()], ids=str)\n"
        "def test_sign(one):\n    assert one > 0\n"
    ),
    "test_flaky.py::test_flaky": (
        "from pathlib import Path\n"
        "def test_flaky():\n"
        "    ran = Path('ran')\n"
        "    if not ran.exists():\n"
        "        ran.touch()\n"
        "        assert False\n"
    ),
    "test_import.py::test_import": (
        "assert number() == 2\ndef test_import():\n    assert number is not None\n"
    ),
}
GOOD, BLIND, BROKEN, RENAMED, FLAKY, IMPORT = TESTS


@pytest.mark.parametrize(
    ("tests", "outcome"),
    [
        pytest.param([BLIND, RENAMED, FLAKY], "survived", marks=pytest.mark.slow),
        pytest.param(
            [BROKEN],
            "survived: its tests fail or take long without it too",
            marks=pytest.mark.slow,
        ),
        ([BLIND, BROKEN, GOOD], "killed"),
        ([BLIND, IMPORT], "killed"),
    ],
    ids=str,
)
def test_a_mutant_is_killed_by_a_test_that_passes_without_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tests: list[str], outcome: str
) -> None:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    folder = tmp_path / "copy"
    (folder / CHUNKS).parent.mkdir(parents=True)
    (folder / CHUNKS).write_text("def number():\n    return abs(2)\n")
    for name, text in TESTS.items():
        path = folder / name.partition("::")[0]
        path.write_text((path.read_text() if path.exists() else NUMBER) + text)
    [mutant] = [one for one in _mutants(folder) if one.mutation.new == "3"]
    made_ns = (folder / CHUNKS).stat().st_mtime_ns
    assert Copy(folder, tmp_path).try_mutant(mutant, tests, limit_s=500) == outcome
    assert "abs(2)" in (folder / CHUNKS).read_text()
    assert (folder / CHUNKS).stat().st_mtime_ns == made_ns


def test_every_claim_of_equivalence_names_a_mutation_and_proves_it_in_a_sentence() -> None:
    for claim in claims():
        mutants = mutants_of(Path(claim.file))
        assert (claim.line, claim.mutation) in {(one.text, f"{one.mutation}") for one in mutants}
        assert claim.proof.endswith(".")
        assert len(claim.proof.split()) > 4


def _mutants(folder: Path) -> list[Mutant]:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        return mutants_of(CHUNKS)


def _map(contexts: dict[str, list[int]]) -> CoverageMap:
    data = sqlite3.connect(":memory:")
    data.executescript(
        "create table file (id integer, path text);"
        "create table context (id integer, context text);"
        "create table line_bits (file_id integer, context_id integer, numbits blob);"
    )
    data.execute("insert into file values (1, ?)", (f"{CHUNKS.resolve()}",))
    for number, (context, lines) in enumerate(contexts.items()):
        data.execute("insert into context values (?, ?)", (number, context))
        data.execute("insert into line_bits values (1, ?, ?)", (number, nums_to_numbits(lines)))
    tests = {context.partition("|")[0] for context in contexts}
    return CoverageMap(data, {test: 2.0 if "slow" in test else 1.0 for test in sorted(tests)})
