"""Names of expected values: equal where they are, and nowhere else."""

from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest

from kernels.cases.runs import calls_of
from opserve_kernels.cases.calls import Setting
from opserve_kernels.cases.case import Case, Kind
from opserve_kernels.cases.fill import Array
from opserve_kernels.cases.reference_calls import ReferenceCall, reference_key
from opserve_kernels.operators.convolution_backward.cases.calls import ConvolutionCall

CASE = ConvolutionCall(input=(2, 4, 5, 6), weight=(6, 4, 3, 2)).case(Setting(kind=Kind.NORMAL))
ALL = ("grad_input", "grad_weight", "grad_bias")


def call_of(case: Case = CASE, sized: tuple[str, ...] = ALL) -> ReferenceCall:
    (call,) = calls_of(case, 3, sized=sized)
    return call


def with_operand(array: Array) -> ReferenceCall:
    call = call_of()
    return replace(call, operands={**call.operands, "weight": array})


def key_of(call: ReferenceCall) -> str:
    return reference_key(call, contract="2")


def test_equal_calls_have_equal_names() -> None:
    plain = call_of()
    strided = np.asfortranarray(plain.operands["weight"])
    assert key_of(call_of()) == key_of(plain) == key_of(with_operand(strided))


def test_another_revision_of_the_contract_has_another_name() -> None:
    assert reference_key(call_of(), contract="1") != key_of(call_of())


@pytest.mark.parametrize("sized", [(), ("grad_input",), ("grad_input", "grad_weight")])
def test_magnitudes_that_are_kept_are_part_of_the_name(sized: tuple[str, ...]) -> None:
    assert key_of(call_of(sized=sized)) != key_of(call_of())


def test_one_bit_of_an_operand_makes_another_name() -> None:
    weight = call_of().operands["weight"].copy()
    weight.view(np.uint32).flat[-1] ^= 1
    assert key_of(with_operand(weight)) != key_of(call_of())


def test_equal_bits_of_another_dtype_make_another_name() -> None:
    halves = call_of().operands["weight"].astype(np.float16)
    brains = halves.view(ml_dtypes.bfloat16)
    assert key_of(with_operand(halves)) != key_of(with_operand(brains))


def test_another_argument_makes_another_name() -> None:
    call = call_of()
    swapped = replace(call.case, arguments={**call.case.arguments, "dilation": (2, 1)})
    assert key_of(replace(call, case=swapped)) != key_of(call)
