"""The suites: complete, the same for a seed, within their bounds, and each call as it expects."""

from collections import Counter
from functools import cache
from hashlib import sha256

import pytest

from kernels.cases.runs import expected_of, plan_of, run, verdicts
from opserve_kernels.cases.arrays import arrays_of
from opserve_kernels.cases.case import DRAWN_KINDS, Case, Kind
from opserve_kernels.cases.coverage import coverage, required
from opserve_kernels.cases.forms.drawn import drawn_forms
from opserve_kernels.cases.registry import all_cases, cases_of
from opserve_kernels.cases.suite import Suite, read_suite, write_suite
from opserve_kernels.cases.suites import STANDARD_LIMIT, SUITES
from opserve_kernels.cases.sums import multiply_adds
from opserve_kernels.errors import InvalidArgument
from opserve_kernels.operators.convolution_backward.cases.calls import ConvolutionCall
from opserve_kernels.operators.convolution_backward.cases.forms import network_layers
from opserve_kernels.registry import OPERATORS
from opserve_kernels.verdict.verdict import Status

SEEDS = (0, 20)
IDS = {
    "smoke": {
        "convolution_backward": (177, "8d087d50d97d85c6"),
        "im2col_backward": (37, "e1b22bcd05ebbabf"),
        "conv2d_backprop_input": (53, "0df37ed283e6970a"),
        "conv2d_backprop_filter": (46, "2c3cf40e4d4b8698"),
        "deconv_grad_filter": (50, "da92a753338f4a8e"),
        "im2col": (33, "c14285739e9e9a3e"),
        "conv_tbc_backward": (51, "71c43161b926e2da"),
        "convolution": (121, "049eb1ce5fbb0ec2"),
        "conv_depthwise2d": (44, "9bdd22a3ac4a5556"),
        "conv_tbc": (40, "84d409222c84f277"),
    },
    "standard": {
        "convolution_backward": (963, "98d66cab7532f407"),
        "im2col_backward": (303, "7067173c4ac9ab95"),
        "conv2d_backprop_input": (398, "ec517ea331207275"),
        "conv2d_backprop_filter": (336, "049c58d9c42cee03"),
        "deconv_grad_filter": (306, "f917be71fe910334"),
        "im2col": (310, "04ee8b73e8763035"),
        "conv_tbc_backward": (274, "2aacaeb2e71cc3c8"),
        "convolution": (758, "ed683dbd309ea8b8"),
        "conv_depthwise2d": (422, "ce00677dcc67b5ab"),
        "conv_tbc": (356, "5b2ef60cf47198b3"),
    },
}
"""Of seed 0: how many cases, and a digest of their ids."""


@cache
def suite_of(name: str, seed: int = 0) -> Suite:
    return SUITES[name](seed)


def _answer(case: Case) -> str:
    try:
        plan_of(case)
    except InvalidArgument as refusal:
        return refusal.status.name
    return "PASS"


@pytest.mark.parametrize(
    ("name", "seed"),
    [
        ("smoke", 0),
        ("smoke", 20),
        ("standard", 0),
        pytest.param("standard", 20, marks=pytest.mark.slow),
    ],
)
def test_every_call_is_planned_or_refused_as_its_case_expects(name: str, seed: int) -> None:
    answers = {case.id: _answer(case) for case in suite_of(name, seed).cases}

    assert {case.id: case.expect for case in suite_of(name, seed).cases} == answers


def test_standard_covers_all_that_every_operator_has() -> None:
    table = coverage(suite_of("standard").cases)

    missing = [
        (operator, feature)
        for operator, row in table.items()
        for feature in row
        if not row[feature]
    ]
    assert missing == []
    assert set(table) == set(OPERATORS)
    for operator, row in table.items():
        assert len(row) == len(required(operator)) == len(set(required(operator)))
        assert sum(feature.startswith("refused: ") for feature in row) == len(
            [rule for rule in cases_of(operator).rules if cases_of(operator).is_error(rule)]
        )


def test_coverage_reports_missing_cases() -> None:
    refused = [case for case in suite_of("standard").cases if case.is_refused]

    table = coverage(refused[1:])["convolution_backward"]

    assert table["refused: grad_output: missing"] == 0
    assert table["refused: input: missing"] == 1
    assert table["rank 3"] == 0


@pytest.mark.parametrize("name", ["smoke", "standard"])
def test_suite_is_the_same_for_a_seed_and_has_no_case_twice(name: str) -> None:
    suite = suite_of(name)

    assert SUITES[name](0).digest == suite.digest
    assert max(Counter(case.id for case in suite.cases).values()) == 1
    assert read_suite(write_suite(suite)) == suite


# Baselines, histories and lists of known failures name cases by id: other cases are a change that
# users see. CHANGELOG.md names it, then IDS.
@pytest.mark.parametrize("name", IDS)
def test_a_suite_has_the_cases_of_the_release(name: str) -> None:
    ids: dict[str, list[str]] = {operator: [] for operator in OPERATORS}
    for case in suite_of(name).cases:
        ids[case.operator].append(case.id)
    found = {operator: (len(row), _digest(row)) for operator, row in ids.items()}

    assert found == IDS[name]


def _digest(ids: list[str]) -> str:
    return sha256("\n".join(sorted(ids)).encode()).hexdigest()[:16]


def test_another_seed_draws_other_shapes_and_keeps_the_rest() -> None:
    first, second = ({case.id for case in suite_of("standard", seed).cases} for seed in SEEDS)

    drawn = {case.id for case in suite_of("standard").cases if case.tags == ("drawn",)}
    assert len(first & second) > 0.8 * len(first)
    assert first - second <= drawn
    assert len(drawn - second) > 0.8 * len(drawn)


def test_drawn_convolutions_have_every_size_of_a_kernel() -> None:
    drawn: dict[int, set[int]] = {1: set(), 2: set(), 3: set()}
    for form in drawn_forms("convolution_backward", 300, seed=0):
        assert isinstance(form.call, ConvolutionCall)
        kernel = form.call.weight[2:]
        drawn[len(kernel)] |= set(kernel)
    assert drawn == {1: set(range(1, 10)), 2: set(range(1, 6)), 3: set(range(1, 4))}


def test_smoke_is_part_of_standard() -> None:
    assert {case.id for case in suite_of("smoke").cases} <= {
        case.id for case in suite_of("standard").cases
    }


def test_smoke_has_real_numbers_beside_integers() -> None:
    kinds: dict[str, Counter[Kind]] = {operator: Counter() for operator in OPERATORS}
    for case in suite_of("smoke").cases:
        if not case.is_refused:
            kinds[case.operator][case.kind] += 1

    assert set().union(*kinds.values()) == set(DRAWN_KINDS)
    for found in kinds.values():
        assert found[Kind.NORMAL] >= 2
        assert found.total() - found[Kind.INTEGER] >= found[Kind.INTEGER] / 4


def test_operators_data_are_those_of_the_registry() -> None:
    found = {name: (cases.support, cases.rules) for name, cases in all_cases().items()}
    assert found == {name: (one.support, one.rules) for name, one in OPERATORS.items()}


def test_suites_stay_within_their_bounds() -> None:
    costs = [multiply_adds(case) for case in suite_of("standard").cases]
    assert max(costs) <= STANDARD_LIMIT
    assert sum(costs) < 2_500_000_000  # 20 s of expected values on two cores
    assert sum(map(multiply_adds, suite_of("smoke").cases)) < 50_000_000
    assert len(suite_of("standard").cases) < 500 * len(OPERATORS)


def test_layers_of_networks_are_of_every_rank_and_some_transposed() -> None:
    layers = list(network_layers())
    found = {network for network, _ in layers}

    assert {"ResNet-50", "VGG-16", "MobileNet", "U-Net", "wav2vec 2.0", "C3D", "DCGAN"} <= found
    assert {call.axes for _, call in layers} == {1, 2, 3}
    assert sum(call.transposed for _, call in layers) == 8
    for _, call in layers:
        channels_in = call.weight[0] if call.transposed else call.weight[1] * call.groups
        assert call.input[1] == channels_in
    resnet = next(call for network, call in layers if network == "ResNet-50")
    assert (resnet.output, resnet.multiply_adds) == ((1, 64, 112, 112), 118013952)


@pytest.mark.parametrize("operator", OPERATORS)
def test_own_kernels_meet_the_expected_values_of_smoke(operator: str) -> None:
    failed: list[str] = []
    for case in suite_of("smoke").cases:
        if case.operator == operator and not case.is_refused:
            placed = arrays_of(case, 0)
            run(case, placed)
            given = {name: placed[name].elements for name in case.written}
            found = verdicts(case, given, expected_of(case, 0))
            failed += [f"{case.tags} {one.reason}" for one in found if one.status != Status.PASSED]

    assert failed == []


@pytest.mark.slow
def test_exhaustive_has_every_form_on_every_profile_in_every_dtype() -> None:
    cases = suite_of("exhaustive").cases
    assert {case.id for case in suite_of("standard").cases} <= {case.id for case in cases}
    found = Counter(
        (case.operator, case.profile, tensor.dtype, case.kind)
        for case in cases
        for tensor in list(case.inputs.values())[:1]
        if not case.is_refused
    )
    for name, operator in OPERATORS.items():
        for profile, support in operator.support.items():
            for dtype in support.dtypes:
                for kind in (Kind.INTEGER, Kind.NORMAL):
                    assert found[name, profile, dtype, kind] > 50
