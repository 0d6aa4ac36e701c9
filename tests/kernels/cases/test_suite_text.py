"""Suites as text: written suites are read, and invalid lines are refused by their place."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from opserve_kernels.cases.case import Case, Fill, Kind, TensorCase
from opserve_kernels.cases.reading import LINE_CHARACTERS, STORAGE_ELEMENTS, case_of
from opserve_kernels.cases.suite import Suite, check_seed, read_suite, write_suite
from opserve_kernels.errors import InvalidArgument
from opserve_kernels.status import Status
from opserve_kernels.tensor import DataType, Format

Line = dict[str, Any]

CASE = Case(
    operator="im2col_backward",
    profile="ascend910b",
    tensors={
        "grad_output": TensorCase(
            shape=(2, 12, 30),
            dtype=DataType.FLOAT,
            strides=(400, 31, 1),
            offset=3,
            fill=Fill(bound=8, thinning=2),
        ),
        "out": TensorCase(shape=(2, 3, 6, 7), dtype=DataType.BF16, format=Format.NCHW),
    },
    arguments={"input_size": (6, 7), "kernel_size": (2, 2), "members": {"a": {"b": "c", "d": 1}}},
    tags=("rank 3",),
    source="written by hand",
)
REFUSED = replace(CASE, expect="ACLNN_ERR_PARAM_INVALID", arguments={"mask": (True, False)})
SUITE = Suite(name="mine", seed=9, cases=(CASE, REFUSED))
TEXT = write_suite(SUITE)


def test_suite_that_was_written_is_read_again() -> None:
    assert read_suite(TEXT) == SUITE
    assert write_suite(read_suite(TEXT)) == TEXT


def test_a_seed_may_be_any_positive_integer_of_64_bits() -> None:
    most = int(np.iinfo(np.int64).max)

    assert read_suite(f'{{"suite": "mine", "seed": {most}}}').seed == most
    check_seed(most)
    for beyond in (most + 1, -1):
        with pytest.raises(InvalidArgument):
            check_seed(beyond)
        with pytest.raises(InvalidArgument):
            read_suite(f'{{"suite": "mine", "seed": {beyond}}}')


def test_a_case_survives_a_round_trip_through_json() -> None:
    assert case_of(CASE.to_json(), "here") == CASE
    assert json.loads(json.dumps(REFUSED.to_json())) == REFUSED.to_json()


def test_header_needs_a_name_only() -> None:
    lines = TEXT.split("\n", 1)[1]

    read = read_suite('{"suite": "mine"}\n' + lines)

    assert (read.name, read.seed, read.cases) == ("mine", 0, SUITE.cases)


def test_case_of_a_person_needs_no_id_and_may_say_what_is_default() -> None:
    line = json.loads(TEXT.splitlines()[1])
    del line["id"]
    line["tensors"]["out"]["offset"] = 0
    text = '{"suite": "mine"}\n' + json.dumps(line, indent=None)

    assert read_suite(text).cases == (CASE,)


def test_id_is_of_the_content_only() -> None:
    assert replace(CASE, tags=("other",), source="").id == CASE.id
    assert replace(CASE, profile="reference").id != CASE.id
    assert REFUSED.id != replace(REFUSED, expect="PASS").id
    arguments = dict(reversed(tuple(CASE.arguments.items())))
    assert replace(CASE, arguments=arguments).id == CASE.id


def test_id_and_digest_are_stable() -> None:
    assert CASE.id == "im2col_backward.ascend910b.7db3f2ea8efc6be1"
    assert SUITE.digest == "sha256:0997953efb6b1d4dcfa582088f2ae51f39d0af4393fb1fa2dbfc97f312ff318c"


def _changed(change: Callable[[Line], object]) -> str:
    """The suite with its third line changed, and no digest."""
    lines = TEXT.splitlines()
    case = json.loads(lines[1])
    del case["id"]
    change(case)
    return "\n".join(['{"suite":"mine"}', lines[2], json.dumps(case)])


def _put(*path: str | int, value: object) -> Callable[[Line], object]:
    def change(line: Line) -> None:
        place: Any = line
        for step in path[:-1]:
            place = place[step]
        place[path[-1]] = value

    return change


def _deep(levels: int) -> object:
    value: object = 1
    for _ in range(levels):
        value = {"a": value}
    return value


_TENSOR = ("tensors", "grad_output")
_CHANGES: list[tuple[Callable[[Line], object], str, str]] = [
    (_put("operator", value="matmul"), "line 3: operator", "im2col_backward"),
    (_put("profile", value=["ascend910b"]), "line 3: profile", "ascend910b"),
    (_put("expect", value="E1"), "line 3: expect", "ACLNN_ERR_PARAM_INVALID"),
    (_put("surprise", value=1), "line 3", "operator, profile"),
    (_put("id", value="im2col_backward.ascend910b.0"), "line 3: id", CASE.id),
    (_put("tags", value="rank"), "line 3: tags", "an array"),
    (_put("source", value="x" * 513), "line 3: source", "512 characters"),
    (_put("source", value="\ud800"), "line 3: source", "512 characters"),
    (
        _put("tensors", "out", value={"shape": [0, 2**40], "dtype": "FLOAT"}),
        "line 3: tensors.out.shape",
        f"{STORAGE_ELEMENTS} elements",
    ),
    (_put("tensors", value=[]), "line 3: tensors", "an object"),
    (_put(*_TENSOR, "dtype", value="FLOAT8"), "line 3: tensors.grad_output.dtype", "BF16"),
    (_put(*_TENSOR, "dtype", value="UNDEFINED"), "line 3: tensors.grad_output.dtype", "elements"),
    (_put(*_TENSOR, "format", value="NCWH"), "line 3: tensors.grad_output.format", "NCHW"),
    (_put(*_TENSOR, "shape", value=[2, -1, 30]), "line 3: tensors.grad_output.shape", ">= 0"),
    (_put(*_TENSOR, "shape", value=[2, 1.5, 30]), "line 3: tensors.grad_output.shape", "integer"),
    (_put(*_TENSOR, "shape", value=[1] * 65), "line 3: tensors.grad_output.shape", "64 entries"),
    (_put(*_TENSOR, "shape", value=[1] * 9), "line 3: tensors.grad_output.shape", "at most 8"),
    (_put(*_TENSOR, "strides", value=[1]), "line 3: tensors.grad_output.strides", "3 dimensions"),
    (_put(*_TENSOR, "offset", value=True), "line 3: tensors.grad_output.offset", "integer"),
    (_put(*_TENSOR, "offset", value=2**63), "line 3: tensors.grad_output.offset", "integer"),
    (_put(*_TENSOR, "storage_shape", value=[9]), "line 3: tensors.grad_output.strides", "storage"),
    (
        _put(*_TENSOR, "offset", value=STORAGE_ELEMENTS),
        "line 3: tensors.grad_output.shape",
        f"{STORAGE_ELEMENTS} elements",
    ),
    (
        _put("tensors", "out", value={"shape": [2**40], "dtype": "FLOAT", "strides": [0]}),
        "line 3: tensors.out.shape",
        f"{STORAGE_ELEMENTS} elements",
    ),
    (
        _put(*_TENSOR, "fill", "kind", value="zeros"),
        "line 3: tensors.grad_output.fill.kind",
        "tiny",
    ),
    (_put(*_TENSOR, "fill", "bound", value=-1), "line 3: tensors.grad_output.fill.bound", "from 0"),
    (
        _put(*_TENSOR, "fill", "thinning", value=32),
        "line 3: tensors.grad_output.fill.thinning",
        "31",
    ),
    (_put(*_TENSOR, "fill", "plain", value=[1]), "line 3: tensors.grad_output.fill.plain", "holds"),
    (
        lambda line: line["tensors"]["grad_output"].pop("fill"),
        "line 3: tensors.grad_output",
        "fill",
    ),
    (_put("tensors", "out", "fill", value={"kind": "tiny"}), "line 3: tensors.out", "no fill"),
    (_put("arguments", "x", value=None), "line 3: arguments.x", "integer"),
    (_put("arguments", "x", value=0.5), "line 3: arguments.x", "integer"),
    (_put("arguments", "x", value=[1, [2]]), "line 3: arguments.x", "integer"),
    (_put("arguments", "x", value="y" * 129), "line 3: arguments.x", "128 characters"),
    (_put("arguments", value=_deep(12)), "line 3: arguments.a.a.a.a.a.a.a.a.a", "objects"),
    (lambda line: line.pop("tensors"), "line 3", "a member tensors"),
]


@pytest.mark.parametrize(("change", "place", "allowed"), _CHANGES)
def test_case_that_is_not_as_the_form_has_it_is_refused_by_its_place(
    change: Callable[[Line], object], place: str, allowed: str
) -> None:
    with pytest.raises(InvalidArgument) as refusal:
        read_suite(_changed(change))

    assert refusal.value.parameter == place
    assert allowed in refusal.value.allowed
    assert len(refusal.value.message) < 1200


_HEADER, _FIRST, _SECOND = TEXT.splitlines()
_TEXTS = [
    ("", "line 1", "the header"),
    ("[]", "line 1", "an object"),
    ('{"suite":""}', "line 1: suite", "a name"),
    ('{"suite":"a","seed":-1}', "line 1: seed", "from 0"),
    ('{"suite":"a","seed":true}', "line 1: seed", "from 0"),
    ('{"suite":"a","revision":2}', "line 1: revision", "1"),
    ('{"suite":"a","sead":1}', "line 1", "seed"),
    ('{"suite":"a","cases":2}\n' + _FIRST, "line 1: cases", "1, as"),
    (_HEADER.replace("sha256:", "sha256:0") + f"\n{_FIRST}\n{_SECOND}", "line 1: digest", "sha"),
    (f'{{"suite":"a"}}\n{_FIRST}\n{_FIRST}', "line 3: id", "differ"),
    (f'{{"suite":"a"}}\n\n{_FIRST}', "line 2", "a line of JSON"),
    ('{"suite":"a"}\n{"a":NaN}', "line 2", "NaN is no number"),
    ('{"suite":"a"}\n{"a":1,"a":2}', "line 2", "twice"),
    ('{"suite":"a"}\n{"a":' + "9" * 5000 + "}", "line 2", "a line of JSON"),
    ('{"suite":"a"}\n' + "[" * 60000, "line 2", "a line of JSON"),
    ('{"suite":"a"}\n' + " " * (LINE_CHARACTERS + 1), "line 2", "characters"),
    ('{"suite":"a"}' + "\n" * 100_002, "line 100002", "100000 cases"),
]


@pytest.mark.parametrize(("text", "place", "allowed"), _TEXTS)
def test_text_that_is_no_suite_is_refused_by_its_line(text: str, place: str, allowed: str) -> None:
    with pytest.raises(InvalidArgument) as refusal:
        read_suite(text)

    assert refusal.value.status == Status.ACL_ERROR_INVALID_PARAM
    assert refusal.value.parameter == place
    assert allowed in refusal.value.allowed


def test_call_that_must_be_refused_may_have_tensors_that_cannot_be() -> None:
    vast = TensorCase(shape=(2**60, -5), dtype=DataType.INT8, fill=Fill(kind=Kind.TINY))
    suite = replace(SUITE, cases=(replace(REFUSED, tensors={"grad_output": vast}),))

    assert read_suite(write_suite(suite)) == suite
