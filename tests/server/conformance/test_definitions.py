"""Definitions of clients: each is a case that can be judged within bounds, or is refused."""

import json
import warnings
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from dataclasses import asdict, replace
from typing import Any
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernels.cases.suites import smoke
from opserve.v1.conformance_service_pb2 import ReadCasesResponse
from opserve_kernels.cases.case import Case, canonical
from opserve_kernels.cases.reading import TEXT_CHARACTERS
from opserve_kernels.cases.schema_form import arguments_of
from opserve_kernels.conformance.expected import ReferenceNeeded
from opserve_kernels.operator import DocumentedRules, PlanOptions
from opserve_kernels.operators.convolution_backward.cases.calls import ConvolutionCall
from opserve_kernels.operators.im2col_backward.cases.calls import FoldCall
from opserve_kernels.profiles import PROFILES
from opserve_kernels.registry import OPERATORS
from opserve_server.conformance import tasks
from opserve_server.conformance.calls import ReadCases
from opserve_server.conformance.definitions import LINES_LIMIT, cases_in, own_case
from opserve_server.conformance.reference import ReferenceDevice
from opserve_server.conformance.request_checks import check_lines
from opserve_server.core.errors import InvalidArgument, LimitExceeded
from server.conformance_service import LIMITS

CASES = [case for case in smoke(0).cases if not case.is_refused]
FOLD = FoldCall(out=(3, 6, 7), kernel=(2, 2)).case()
REFERENCE = ReferenceDevice(mock.Mock(), LIMITS)
REPORTED = 2**12
"""Characters of a refusal: lists of 64 numbers are reported whole."""
NUMBERS = (
    *(-1, 0, 1, 2, 3, 7, 16, 17, 255, 256, 2**16, 2**20, 2**30, 2**31, 2**32),
    *(2**62, 2**63 - 1, 2**63, 2**64, -(2**63), 10**40),
)
WORDS = (
    *("", "x", "\0", "\ud800", "FLOAT", "BF16", "DOUBLE", "INT8", "NCHW", "NC1HWC0", "FRACTAL_Z"),
    *("float64", "reference", "ft78ne", "ascend310p", "ACLNN_ERR_PARAM_INVALID", "tiny", "special"),
)
MEMBERS = (
    *("strides", "offset", "storage_shape", "fill", "plain", "groups", "x", "shape", "dtype"),
    *("format", "bound", "thinning", "kind", "res_dtype", "raw", "group_dict", "param", "expect"),
)
scalars: st.SearchStrategy[Any] = st.one_of(
    st.sampled_from((None, True, False, 1.5, 1e300, *NUMBERS, *WORDS))
)
values = st.one_of(scalars, st.lists(scalars, max_size=6))


@st.composite
def changed(draw: st.DrawFn) -> str:
    """A definition of which a few members are others, or none."""
    line = draw(st.sampled_from(CASES)).to_json()
    for member in ("id", "tags", "source"):
        line.pop(member, None)
    for _ in range(draw(st.integers(1, 3))):
        holder, name = draw(st.sampled_from(list(places(line))))
        old = holder[name]
        if isinstance(old, dict) and draw(st.booleans()):
            old[draw(st.sampled_from(MEMBERS))] = draw(values)
        elif isinstance(old, int) and draw(st.booleans()):
            holder[name] = old + draw(st.integers(-2, 2))
        elif draw(st.integers(0, 5)):
            holder[name] = draw(values)
        else:
            holder.pop(name)
        if not line:
            break
    return json.dumps(line)


def places(holder: Any) -> Iterator[tuple[Any, Any]]:
    """Every member and entry, by what holds it."""
    members: Iterable[Any] = holder if hasattr(holder, "keys") else range(len(holder))
    for name in tuple(members):
        yield holder, name
        if isinstance(holder[name], dict | list):
            yield from places(holder[name])


def is_small(case: Case) -> bool:
    try:
        REFERENCE.check_size(case)
    except LimitExceeded:
        return False
    return True


def read_or_refused(text: str) -> Case | InvalidArgument:
    try:
        return own_case(text)
    except InvalidArgument as error:
        return error


@given(changed())
@settings(max_examples=150)
def test_a_definition_is_a_case_that_can_be_judged_or_it_is_refused(text: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        case = read_or_refused(text)
        if isinstance(case, InvalidArgument):
            assert len(case.parameter) + len(case.given) + len(case.allowed) < REPORTED
            return
        assert own_case(canonical(case.to_json())) == case
        if case.is_refused or not is_small(case):
            return
        assert tasks.inputs_of(case, 7).size
        asked = tasks.expected_of(REFERENCE.task(case, 7))
    for call in asked.calls if isinstance(asked, ReferenceNeeded) else ():
        for prepared in call.calls:
            operator = OPERATORS[prepared.case.operator]
            arguments = arguments_of(prepared.case, operator.schema)
            options = PlanOptions(documented_rules=DocumentedRules.WARN)
            operator.plan(arguments, PROFILES[prepared.case.profile], options)


@given(st.recursive(scalars, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)))
def test_other_json_is_refused(value: Any) -> None:
    with pytest.raises(InvalidArgument):
        own_case(json.dumps(value))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "null",
        "{",
        '{"operator":NaN}',
        "[" * 60_000,
        '{"a":' * 10_000,
        f'{{"operator":{"9" * 5000}}}',
        '{"operator":"im2col_backward","operator":"im2col_backward"}',
    ],
)
def test_a_text_that_is_no_definition_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgument):
        own_case(text)


def test_no_depth_of_nesting_breaks_the_reading() -> None:
    """At some depth a text can still be read, and its value no longer be shown whole."""
    before, after = line_of(x=0).replace('"x": 0', '"x": |').split("|")
    for depth in range(1000):
        with pytest.raises(InvalidArgument):
            own_case(f"{before}{'[' * depth}{']' * depth}{after}")


def line_of(expect: str = "PASS", **arguments: Any) -> str:
    line: Any = FOLD.to_json() | {"expect": expect}
    del line["id"]
    line["arguments"] |= arguments
    return json.dumps(line)


@pytest.mark.parametrize(
    ("text", "place", "given", "allowed"),
    [
        (line_of(steps=[1, 1]), "arguments", "a member 'steps'", "stride"),
        (line_of(stride=1), "arguments.stride", "1", "an array of integers"),
        (line_of(stride=[True, True]), "arguments.stride", "(True, True)", "of integers"),
        (line_of(out=1), "arguments.out", "1", "a member of tensors"),
        (line_of(stride=[0, 1]), "definition", "a call that is refused (stride", "_INVALID"),
        (line_of("ACLNN_ERR_PARAM_INVALID"), "definition: expect", "_INVALID", "not refused"),
        (
            line_of("ACLNN_ERR_PARAM_NULLPTR", stride=[0, 1]),
            "definition",
            "a call that is refused (stride",
            "_INVALID",
        ),
        (
            line_of().replace('"grad_output"', '"gradient"'),
            "tensors",
            "a member 'gradient'",
            "grad_output, out",
        ),
        (
            line_of().replace('"out": {', '"out": {"strides": [0, 0, 1], '),
            "definition: tensors.out.strides",
            "[0, 0, 1]",
            "one place",
        ),
        (
            line_of().replace("ascend910b", "ft78ne"),
            "definition: profile",
            "ft78ne",
            "ascend910b",
        ),
    ],
)
def test_a_call_that_does_not_do_what_it_says_is_refused_by_its_place(
    text: str, place: str, given: str, allowed: str
) -> None:
    with pytest.raises(InvalidArgument) as refused:
        own_case(text)
    assert refused.value.parameter == place
    assert given in refused.value.given
    assert allowed in refused.value.allowed


def test_a_call_that_must_be_refused_is_a_case() -> None:
    assert own_case(line_of("ACLNN_ERR_PARAM_INVALID", stride=[0, 1])).is_refused


@pytest.mark.parametrize(
    ("rules", "expect", "is_case"),
    [
        (DocumentedRules.ERROR, "PASS", False),
        (DocumentedRules.ERROR, "ACLNN_ERR_PARAM_INVALID", True),
        (DocumentedRules.WARN, "PASS", True),
        (DocumentedRules.WARN, "ACLNN_ERR_PARAM_INVALID", True),
        (DocumentedRules.WARN, "ACLNN_ERR_PARAM_NULLPTR", False),
    ],
)
def test_a_call_against_the_page_is_a_case_by_the_documented_rules(
    rules: DocumentedRules, expect: str, *, is_case: bool
) -> None:
    case = ConvolutionCall(input=(1, 2, 5, 5), weight=(3, 2, 3, 3)).case()
    broken = replace(case, arguments={**case.arguments, "bias_sizes": (1,)}, expect=expect)
    text = canonical(broken.to_json())
    with nullcontext() if is_case else pytest.raises(InvalidArgument):
        own_case(text, rules)
    in_doubt = expect != "ACLNN_ERR_PARAM_NULLPTR"
    with nullcontext() if in_doubt else pytest.raises(InvalidArgument):
        own_case(text)


def test_a_view_that_shows_its_elements_often_counts_with_all_that_it_shows() -> None:
    line: Any = json.loads(line_of())
    line["tensors"]["grad_output"]["strides"] = [0, 1]
    case = own_case(json.dumps(line))
    assert is_small(case)
    line["tensors"]["grad_output"] |= {"shape": [12, 2**20], "strides": [0, 0]}
    line["tensors"]["out"]["shape"] = [3, 2, 2**20 + 1]
    line["arguments"]["input_size"] = [2, 2**20 + 1]
    case = own_case(json.dumps(line))
    assert case.tensors["grad_output"].storage_elements == 1
    with pytest.raises(LimitExceeded, match=f"has {12 * 2**20} elements of a tensor"):
        REFERENCE.check_size(case)


def test_lines_that_request_more_calls_than_are_read_make_none() -> None:
    many = f"--mb={','.join(map(str, range(1, LINES_LIMIT + 2)))}"
    asked = ReadCases(form="benchdnn", text=f"ic4oc4ih6kh3\n{many} ic4oc4ih6kh3\nic4oc4ih7kh3")
    read = cases_in(asked)
    assert len(read.definitions) == 1
    assert [(one.line, one.reason) for one in read.refused] == [
        (2, f"at most {LINES_LIMIT} calls are made"),
        (3, f"at most {LINES_LIMIT} calls are made"),
    ]


def test_the_longest_answer_fits_a_message() -> None:
    options = "--dt=bf16 --stag=axb --dtag=axb"
    name = "\N{GRINNING FACE}" * TEXT_CHARACTERS
    problem = f'g2ic16id7oc24od7kd3pd1_n"{name}"'
    sizes = ",".join(map(str, range(1000, 1000 + LINES_LIMIT)))
    read = cases_in(ReadCases(form="benchdnn", text=f"{options} --mb={sizes}\n{problem}"))
    assert len(read.definitions) == LINES_LIMIT
    assert ReadCasesResponse(**asdict(read)).ByteSize() < 4 * 2**20


@pytest.mark.parametrize("value", ["1x1", "9", "a", "f32:", "-1x", "::", "1,"])
@pytest.mark.parametrize(
    "option", ["dir", "dt", "bia-dt", "stag", "wtag", "strides", "mb", "cfg", "attr-x"]
)
def test_a_refusal_has_a_bounded_length(option: str, value: str) -> None:
    for text in (f"--{option}={value * 9999} ic4oc4ih6kh3", f"ic{value * 9999}oc4ih6kh3"):
        refused = cases_in(ReadCases(form="benchdnn", text=text)).refused
        assert all(len(one.text) + len(one.reason) < REPORTED for one in refused)


@pytest.mark.parametrize(
    "text", ["x" * 65_537, *(end * (LINES_LIMIT + 1) for end in ("x\r", "\n"))]
)
def test_texts_that_are_too_long_are_not_read(text: str) -> None:
    with pytest.raises(InvalidArgument, match="text does not accept"):
        check_lines(ReadCases(form="miopen", text=text))
