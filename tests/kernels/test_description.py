"""The description of an operator agrees with its schema, support and checks."""

from dataclasses import fields, is_dataclass

import pytest

from opserve_kernels.description import OperatorDescription, Parameter, describe
from opserve_kernels.operators.conv2d_backprop_input.schema import (
    Conv2dBackpropInputParaDict,
    GroupDict,
)
from opserve_kernels.profiles import PROFILES
from opserve_kernels.registry import OPERATORS, operators_of

each_operator = pytest.mark.parametrize("name", OPERATORS)
LONGEST = 300


def described(name: str) -> OperatorDescription:
    return describe(OPERATORS[name])


def members(parameters: tuple[Parameter, ...], name: str) -> tuple[Parameter, ...]:
    return next(parameter.members for parameter in parameters if parameter.name == name)


@each_operator
def test_parameters_are_the_fields_of_the_schema(name: str) -> None:
    schema = [field.name for field in fields(OPERATORS[name].schema)]
    assert [parameter.name for parameter in described(name).parameters] == schema


@pytest.mark.parametrize(
    ("name", "header"),
    [
        ("convolution_backward", "aclnn_convolution_backward"),
        ("conv_tbc_backward", "aclnn_convolution_backward"),
        ("conv_tbc", "aclnn_convolution"),
        ("im2col", "aclnn_im2col"),
        ("conv2d_backprop_input", ""),
    ],
)
def test_a_call_of_aclnn_has_the_header_that_declares_it(name: str, header: str) -> None:
    assert described(name).header == header


@each_operator
def test_tensors_and_outputs_are_described_as_such(name: str) -> None:
    parameters, operator = described(name).parameters, OPERATORS[name]
    tensors = [parameter.name for parameter in parameters if parameter.kind == "tensor"]
    written = [parameter.name for parameter in parameters if parameter.written]
    assert tuple(tensors) == operator.tensor_fields
    assert tuple(written) == operator.outputs


@each_operator
def test_every_parameter_is_described_by_a_separate_sentence(name: str) -> None:
    descriptions = [parameter.description for parameter in described(name).parameters]
    assert all(0 < len(text) < LONGEST and text.endswith(".") for text in descriptions)
    assert len(set(descriptions)) == len(descriptions)


def test_members_are_those_of_the_nested_arguments() -> None:
    para_dict = members(described("conv2d_backprop_input").parameters, "para_dict")
    group_dict = members(para_dict, "group_dict")
    for described_dict, schema in (
        (para_dict, Conv2dBackpropInputParaDict),
        (group_dict, GroupDict),
    ):
        assert is_dataclass(schema)
        assert [member.name for member in described_dict] == [
            field.name for field in fields(schema)
        ]


def test_a_description_runs_over_the_lines_of_its_entry() -> None:
    (padding,) = (
        parameter
        for parameter in described("convolution_backward").parameters
        if parameter.name == "padding"
    )
    assert padding.kind == "integers"
    assert padding.description.startswith("Zeros around the input")
    assert padding.description.endswith("up, down, left, right.")


@each_operator
def test_support_names_known_profiles_and_the_profiles_name_it(name: str) -> None:
    profiles = {row.profile for row in described(name).support}
    assert profiles <= set(PROFILES)
    assert profiles == {profile for profile in PROFILES if OPERATORS[name] in operators_of(profile)}


@each_operator
def test_dtypes_of_the_source_alone_are_among_the_dtypes(name: str) -> None:
    for row in described(name).support:
        assert set(row.source_only) <= set(row.dtypes)


@each_operator
def test_errors_have_the_code_name_and_family_of_their_rule(name: str) -> None:
    rules = OPERATORS[name].rules
    assert rules
    for error, rule in zip(described(name).errors, rules, strict=True):
        assert (error.code, error.reason) == (int(rule.status), rule.status.name)
        assert error.domain == rule.status.domain
        assert (error.parameter, error.broken) == (rule.parameter, rule.broken)
        assert (error.origin, error.sentence) == (rule.origin.value, rule.sentence)


@each_operator
def test_limits_bound_arguments_of_the_operator(name: str) -> None:
    names = {field.name for field in fields(OPERATORS[name].schema)}
    for limit in described(name).limits:
        assert limit.parameter.split(".")[0] in names
        assert limit.most is None or limit.least <= limit.most
        assert set(limit.profiles) <= set(OPERATORS[name].support)
