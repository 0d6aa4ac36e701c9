"""Real rules of the vendor's page over gRPC and Connect: errors by default, warnings on request."""

import io
import json
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import httpx2
import numpy as np
import pytest

from contract.apis import client_scalars
from kernels.oracles.convolution_backward import expected
from kernels.oracles.expectation import assert_meets
from kernels.samples.convolution_backward_page import CONTRADICTED_CALLS, PAGE_SAMPLES
from kernels.samples.sample import Sample
from opserve.v1.command_service_pb2 import Command
from opserve.v1.operator_service_pb2 import GetWorkspaceSizeRequest, RuleWarning
from opserve_client import (
    AclnnError,
    Client,
    ConvolutionBackward,
    DocumentedRuleWarning,
    Session,
)
from opserve_client.arguments import DocumentedRulesName
from opserve_client.operators import get_workspace_size_request
from opserve_client.private_service import Addresses
from opserve_client.tensors import TensorSpec
from opserve_kernels.operator import Rule
from opserve_kernels.registry import OPERATORS
from opserve_kernels.status import Status
from opserve_kernels.tensor import DataType, Format

pytestmark = pytest.mark.system
RUN = "/v1/operators/aclnnConvolutionBackward:run"
BY_NAME = {sample.name: sample for sample in (*PAGE_SAMPLES, *CONTRADICTED_CALLS)}
BIAS_SIZES = BY_NAME["bias_sizes of another convolution"]
BROKEN_BY = {
    "bias_sizes": BIAS_SIZES,
    "padding": BY_NAME["a padding of 256"],
}
CONTRADICTED = BY_NAME["four output paddings"]
ACCEPTED: tuple[tuple[str, Sample, DocumentedRulesName], ...] = (
    *((parameter, sample, "warn") for parameter, sample in BROKEN_BY.items()),
    ("output_padding", CONTRADICTED, "error"),
    ("output_padding", CONTRADICTED, "warn"),
)
SessionFor = Callable[[DocumentedRulesName], Session]
accepted = pytest.mark.parametrize(("parameter", "sample", "rules"), ACCEPTED)
rejected = pytest.mark.parametrize(("parameter", "sample"), BROKEN_BY.items())


@pytest.fixture(params=["grpc", "rest"])
def opened(request: pytest.FixtureRequest, service: Addresses) -> Iterator[SessionFor]:
    with Client(getattr(service, request.param)) as client:
        yield lambda rules: client.open_session("ascend910b", documented_rules=rules)


def page_rule(parameter: str, sentence: str) -> Rule:
    """The only row of the error table with the parameter and the page's sentence."""
    (found,) = {
        (rule.status, rule.parameter, rule.sentence): rule
        for rule in OPERATORS["convolution_backward"].rules
        if rule.parameter == parameter and rule.sentence == sentence
    }.values()
    return found


def assert_names(parameter: str, warning: DocumentedRuleWarning | RuleWarning) -> None:
    """The warning has all of the broken rule."""
    status = Status.ACLNN_ERR_PARAM_INVALID
    assert page_rule(parameter, warning.sentence).status is status
    assert (warning.code, warning.name, warning.domain) == (status, status.name, "opserve")
    assert warning.parameter == parameter
    assert warning.given
    assert warning.allowed
    assert any("\u4e00" <= letter <= "\u9fff" for letter in warning.sentence)


def assert_right(sample: Sample, arrays: Mapping[str, Any]) -> None:
    """Each gradient is within the bound of the oracle."""
    for name, expectation in expected(sample, sample.buffers()).items():
        assert_meets(np.asarray(arrays[name]), expectation)


def call_on_arrays(sample: Sample) -> ConvolutionBackward:
    given: dict[str, Any] = sample.arrays() | client_scalars(sample)
    return ConvolutionBackward(**given)


def request_of(sample: Sample, executor: int) -> GetWorkspaceSizeRequest:
    """Phase one, of tensors without a buffer."""
    specs = {
        name: TensorSpec(
            shape=tensor.shape,
            dtype=DataType(tensor.dtype.value),
            format=Format(tensor.format.value),
        )
        for name, tensor in sample.tensors.items()
        if tensor is not None
    }
    call = ConvolutionBackward(**dict.fromkeys(sample.inputs), **client_scalars(sample))
    return get_workspace_size_request(call, specs, executor=executor)


def one_shot(service: Addresses, sample: Sample, **choices: str) -> httpx2.Response:
    tensors = io.BytesIO()
    np.savez(tensors, allow_pickle=False, **sample.arrays())
    arguments = {name: {"array": name} for name in sample.inputs} | client_scalars(sample)
    args = json.dumps({"profile": "ascend910b", "arguments": arguments, **choices})
    files = {"args": ("a.json", args.encode()), "tensors": ("in.npz", tensors.getvalue())}
    return httpx2.post(f"{service.rest}{RUN}", files=files, timeout=60)


@rejected
def test_every_call_of_a_session_is_rejected_by_default_with_the_code_of_the_rule(
    opened: SessionFor, parameter: str, sample: Sample
) -> None:
    with opened("error") as session:
        request = request_of(sample, session.last_handles.executor + 1)
        for call in (
            lambda: session.run(call_on_arrays(sample)),
            lambda: session.submit([Command(get_workspace_size=request)]),
        ):
            with pytest.raises(AclnnError) as refusal:
                call()
            assert (refusal.value.code, refusal.value.parameter) == (161002, parameter)


@accepted
def test_a_run_warns_of_the_rule_and_has_the_right_numbers(
    opened: SessionFor, parameter: str, sample: Sample, rules: DocumentedRulesName
) -> None:
    with opened(rules) as session, pytest.warns(DocumentedRuleWarning) as found:
        result = session.run(call_on_arrays(sample))
    (one,) = [warning.message for warning in found]
    assert isinstance(one, DocumentedRuleWarning)
    assert_names(parameter, one)
    assert_right(sample, {name: getattr(result, name) for name in sample.outputs})


@accepted
def test_a_plan_and_a_batch_have_the_warning(
    opened: SessionFor, parameter: str, sample: Sample, rules: DocumentedRulesName
) -> None:
    with opened(rules) as session:
        executor = session.last_handles.executor + 1
        (result,) = session.submit([Command(get_workspace_size=request_of(sample, executor))])
        (in_batch,) = result.get_workspace_size.warnings
        tensors: dict[str, Any] = {n: session.upload(one) for n, one in sample.arrays().items()}
        outputs: dict[str, Any] = {
            name: session.empty(tensor.shape, str(tensor.dtype), format=str(tensor.format))
            for name, tensor in sample.outputs.items()
        }
        call = ConvolutionBackward(**tensors, **outputs, **client_scalars(sample))
        with pytest.warns(DocumentedRuleWarning):
            plan = session.get_workspace_size(call)
        (planned,) = plan.warnings
    assert_names(parameter, in_batch)
    assert_names(parameter, planned)


@rejected
def test_a_one_shot_call_is_rejected_by_default_with_the_code_of_the_rule(
    service: Addresses, parameter: str, sample: Sample
) -> None:
    answer = one_shot(service, sample)
    assert answer.status_code == 400, answer.text
    assert "161002" in answer.text
    assert parameter in answer.text


@accepted
def test_a_one_shot_call_has_the_warning_in_a_header_and_the_right_numbers(
    service: Addresses, parameter: str, sample: Sample, rules: DocumentedRulesName
) -> None:
    answer = one_shot(service, sample, documented_rules=rules)
    assert answer.status_code == 200, answer.text
    (warning,) = json.loads(answer.headers["x-opserve-warnings"])
    assert_names(parameter, RuleWarning(**warning))
    with np.load(io.BytesIO(answer.content), allow_pickle=False) as arrays:
        assert_right(sample, arrays)


def test_a_call_that_breaks_no_rule_has_no_warning_in_any_session(opened: SessionFor) -> None:
    right = replace(BIAS_SIZES, scalars={**BIAS_SIZES.scalars, "bias_sizes": (4,)})
    with opened("warn") as session, warnings.catch_warnings():
        warnings.simplefilter("error")
        session.run(call_on_arrays(right))
