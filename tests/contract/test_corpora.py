"""Cases of ONNX, WebNN, TensorFlow, PyTorch, CUTLASS and cuDNN tests, through the service."""

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from contract.corpora import Case, cases, stored_arrays, stored_case
from kernels.oracles import convolution_backward, im2col_backward
from kernels.oracles.expectation import Doubles, assert_meets, expect
from opserve_client import AclnnError, Client, ConvolutionBackward, Im2colBackward, Session
from opserve_client.private_service import Addresses
from opserve_kernels.tensor import DataType

pytestmark = pytest.mark.system
Floats = NDArray[np.float32]
COST_LIMIT = 2 * 10**6
"""Multiply-adds above which the float64 oracle takes longer than a test may."""
OUTPUT_PADDING = "output_padding must be below stride; torch allows it up to the dilation"
EMPTY = "grad_output must not be empty where input is not"
BLOCKS = "blocks have two dimensions, so out has at most four"
REFUSED = {
    "torch-db-0007": ("output_padding", OUTPUT_PADDING),
    "torch-db-0008": ("output_padding", OUTPUT_PADDING),
    "torch-db-0015": ("output_padding", OUTPUT_PADDING),
    "torch-db-0016": ("output_padding", OUTPUT_PADDING),
    "tf-conv2d_backprop_input-06": ("grad_output", EMPTY),
    "tf-conv2d_backprop_filter-08": ("weight", "weight must not be empty"),
    "onnx-node-test_col2im_5d-0": ("out", BLOCKS),
}
"""Cases that the vendor's contract forbids: the parameter that is refused, and the rule."""


@pytest.fixture
def session(service: Addresses) -> Iterator[Session]:
    with Client(service.grpc) as client, client.open_session("ascend910b") as session:
        yield session


@pytest.fixture
def lenient(service: Addresses) -> Iterator[Session]:
    """Torch gives calls without a bias `bias_sizes` of [0], which only the page rejects."""
    with (
        Client(service.grpc) as client,
        client.open_session("ascend910b", documented_rules="warn") as session,
    ):
        yield session


def convolution(case: Case, grad_output: Floats, input_: Floats, weight: Floats) -> Any:
    """The gradients of a case; all by default."""
    arguments = case["args"]
    return ConvolutionBackward(
        grad_output=grad_output,
        input=input_,
        weight=weight,
        bias_sizes=arguments["biasSizes"],
        stride=arguments["stride"],
        padding=arguments["padding"],
        dilation=arguments["dilation"],
        transposed=arguments["transposed"],
        output_padding=arguments["outputPadding"],
        groups=arguments["groups"],
        output_mask=case.get("outputMask") or [True, True, True],
        cube_math_type=0,
    )


def integers(case: Case, *names: str) -> list[Floats]:
    """Small integers in the shapes of a case, whose sums are exact in float32."""
    random = np.random.default_rng(len(case["case_id"]) + case["cost"])
    shapes = [case["args"][name] for name in names]
    return [np.asarray(random.integers(-3, 4, shape), np.float32) for shape in shapes]


def oracle(
    case: Case, grad_output: Floats, input_: Floats, weight: Floats
) -> convolution_backward.Gradients:
    """The gradients in float64."""
    names = ("stride", "padding", "dilation", "transposed", "groups")
    geometry = convolution_backward.geometry_of({name: case["args"][name] for name in names})
    return convolution_backward.gradients(
        grad_output.astype(np.float64),
        input_.astype(np.float64),
        weight.astype(np.float64),
        geometry,
    )


def assert_equals_oracle(
    session: Session, case: Case, grad_output: Floats, input_: Floats, weight: Floats
) -> None:
    grads = session.run(convolution(case, grad_output, input_, weight))
    exact = oracle(case, grad_output, input_, weight)
    for name in ("grad_input", "grad_weight", "grad_bias"):
        if getattr(grads, name) is not None:
            np.testing.assert_array_equal(getattr(grads, name), getattr(exact, name), name)


def magnitude_of(array: Floats) -> Floats:
    return np.asarray(np.abs(array), np.float32)


def meets(given: Floats, exact: Doubles, magnitude: Doubles, terms: int) -> None:
    """Both the given and the stored result are float32 sums: each may be off by the bound."""
    expectation = expect(exact, 2 * magnitude, terms=terms, roundings=(DataType.FLOAT,) * 2)
    assert_meets(given, expectation)


def test_tensorflow_vectors_are_met_to_the_bit(session: Session) -> None:
    all_cases = cases("tensorflow")
    for case in all_cases:
        if case["case_id"] in REFUSED:
            with refused(case):
                run_counted(session, case)
        else:
            run_counted(session, case)
    assert len(all_cases) == 44
    assert sum(case.get("expect") is not None for case in all_cases) == 14


def run_counted(session: Session, case: Case) -> None:
    shapes = [case["args"][name] for name in ("gradOutput", "input", "weight")]
    operands = [counted(shape, is_weight=place == 2) for place, shape in enumerate(shapes)]
    assert_equals_oracle(session, case, *operands)
    if case.get("expect") is not None:
        grads = session.run(convolution(case, *operands))
        given = as_tensorflow(grads.grad_input, grads.grad_weight)
        np.testing.assert_array_equal(given.ravel(), case["expect"], case["case_id"])


def counted(shape: list[int], *, is_weight: bool) -> Floats:
    """1, 2, 3, ... in TensorFlow's layout (NHWC, or HWIO), seen as NCHW or KCRS."""
    if is_weight:
        rows, columns, ins, outs = shape[2], shape[3], shape[1], shape[0]
        values = np.arange(1, rows * columns * ins * outs + 1, dtype=np.float32)
        return values.reshape(rows, columns, ins, outs).transpose(3, 2, 0, 1).copy()
    batch, channels, height, width = shape
    values = np.arange(1, batch * channels * height * width + 1, dtype=np.float32)
    return values.reshape(batch, height, width, channels).transpose(0, 3, 1, 2).copy()


def as_tensorflow(grad_input: Floats | None, grad_weight: Floats | None) -> Floats:
    """The gradient that a case requests, in TensorFlow's layout."""
    if grad_input is not None:
        return grad_input.transpose(0, 2, 3, 1)
    assert grad_weight is not None
    return grad_weight.transpose(2, 3, 1, 0)


# Some break rules of the page that the vendor's own tests contradict: accepted with a warning.
@pytest.mark.filterwarnings("ignore::opserve_client.DocumentedRuleWarning")
@pytest.mark.parametrize(
    ("corpus", "transposes", "forwards"), [("onnx", 13, 33), ("webnn", 15, 48)]
)
def test_stored_convolutions_are_met(
    session: Session, corpus: str, transposes: int, forwards: int
) -> None:
    counts = {"data gradient": 0, "adjoint": 0}
    for case in cases(corpus):
        if case["op"] != "aclnnConvolutionBackward":
            continue
        stored = stored_arrays(case)
        bias = stored.get("B", np.zeros(1, np.float32))
        output = stored["Y"] - bias.reshape(-1, *[1] * (stored["Y"].ndim - 2))
        if case["role"].startswith("gradInput"):
            assert_data_gradient(session, case, stored, output)
            counts["data gradient"] += 1
        else:
            assert_adjoint(session, case, stored, output)
            counts["adjoint"] += 1
    assert counts == {"data gradient": transposes, "adjoint": forwards}


def test_a_transposed_convolution_with_an_output_shape_is_met(session: Session) -> None:
    """Its last row and column are under no tap; the reader leaves it out."""
    case = stored_case("onnx-node-test_convtranspose_output_shape-0")
    maps = case["maps_to"]
    arguments = {
        "input": maps["input_shape"],
        "biasSizes": [1],
        "stride": maps["stride"],
        "padding": maps["pads_begin_end"][0],
        "dilation": maps["dilation"],
        "transposed": False,
        "outputPadding": [0, 0],
        "groups": maps["groups"],
    }
    stored = stored_arrays(case)
    whole = {"case_id": case["case_id"], "cost": 0, "args": arguments}
    assert_data_gradient(session, whole, stored, stored["Y"])


def assert_data_gradient(
    session: Session, case: Case, stored: dict[str, Floats], output: Floats
) -> None:
    """A transposed convolution's output is the data gradient of its input."""
    (input_,) = integers(case, "input")
    operands = (stored["X"], input_, stored["W"])
    given = session.run(convolution(case, *operands)).grad_input
    assert given is not None
    magnitude = oracle(case, *map(magnitude_of, operands)).grad_input
    terms = int(np.prod(stored["W"].shape)) // stored["W"].shape[1]
    meets(given, output.astype(np.float64), magnitude, terms)


def assert_adjoint(session: Session, case: Case, stored: dict[str, Floats], output: Floats) -> None:
    """<Y - b, dy> = <X, dX> = <W, dW> for any dy; the bound is that of the stored output's sums."""
    (grad_output,) = integers(case, "gradOutput")
    grads = session.run(convolution(case, grad_output, stored["X"], stored["W"]))
    assert grads.grad_input is not None
    assert grads.grad_weight is not None
    operands = (grad_output, stored["X"], stored["W"])
    magnitudes = oracle(case, *map(magnitude_of, operands))
    size = float(np.sum(np.abs(stored["X"]) * magnitudes.grad_input))
    terms = max(grad_output.size, stored["W"].size)
    product = np.sum(output.astype(np.float64) * grad_output.astype(np.float64))
    for operand, grad in ((stored["X"], grads.grad_input), (stored["W"], grads.grad_weight)):
        given = np.sum(operand.astype(np.float64) * grad.astype(np.float64))
        assert abs(given - product) <= 2 * (4 * np.sqrt(terms) + 4) * 2.0**-24 * size, case[
            "case_id"
        ]


def test_onnx_columns_are_met_to_the_bit(session: Session) -> None:
    columns = [case for case in cases("onnx") if case["op"] == "aclnnIm2colBackward"]
    assert len(columns) == 4
    for case in columns:
        stored = stored_arrays(case)
        np.testing.assert_array_equal(run_columns(session, case, stored["X"]), stored["Y"])
    blocks = stored_case("onnx-node-test_col2im_5d-0")
    with refused(blocks):
        run_columns(session, blocks | {"args": blocks["maps_to"]}, stored_arrays(blocks)["X"])


def run_columns(session: Session, case: Case, columns: Floats) -> Floats:
    arguments = case["args"]
    result = session.run(
        Im2colBackward(
            grad_output=columns,
            input_size=arguments["inputSize"],
            kernel_size=arguments["kernelSize"],
            dilation=arguments["dilation"],
            padding=arguments["padding"],
            stride=arguments["stride"],
        )
    )
    assert result.out is not None
    return result.out


# Some break rules of the page that the vendor's own tests contradict: accepted with a warning.
@pytest.mark.filterwarnings("ignore::opserve_client.DocumentedRuleWarning")
def test_calls_recorded_from_torch_are_met_to_the_bit(session: Session, lenient: Session) -> None:
    counts = {"aclnnConvolutionBackward": 0, "aclnnIm2colBackward": 0}
    for case in cases("torch"):
        if case["case_id"] in REFUSED:
            with refused(case):
                run_recorded(session, case)
        else:
            run_recorded(lenient, case)
        counts[case["op"]] += 1
    assert counts == {"aclnnConvolutionBackward": 127, "aclnnIm2colBackward": 222}


@contextmanager
def refused(case: Case) -> Generator[None]:
    """The case is refused for the reason in REFUSED."""
    with pytest.raises(AclnnError) as refusal:
        yield
    assert refusal.value.code == 161002
    assert refusal.value.parameter == REFUSED[case["case_id"]][0]


def run_recorded(session: Session, case: Case) -> None:
    if case["op"] == "aclnnConvolutionBackward":
        assert_equals_oracle(session, case, *integers(case, "gradOutput", "input", "weight"))
        return
    (columns,) = integers(case, "gradOutput")
    given = run_columns(session, case, columns)
    if columns.size == 0:
        return
    names = ("kernelSize", "dilation", "padding", "stride", "inputSize")
    words = ("kernel_size", "dilation", "padding", "stride", "input_size")
    scalars = {word: case["args"][name] for word, name in zip(words, names, strict=True)}
    batched = columns.astype(np.float64).reshape(-1, *columns.shape[-2:])
    exact = im2col_backward.gradients(batched, scalars)
    np.testing.assert_array_equal(given.reshape(exact.shape), exact)


@pytest.mark.parametrize(("corpus", "small", "in_all"), [("cutlass", 30, 81), ("nvidia", 6, 36)])
def test_shapes_of_vendor_suites_are_met_to_the_bit(
    session: Session, corpus: str, small: int, in_all: int
) -> None:
    all_cases = cases(corpus)
    within = [case for case in all_cases if case["cost"] <= COST_LIMIT]
    for case in within:
        assert_equals_oracle(session, case, *integers(case, "gradOutput", "input", "weight"))
    assert (len(within), len(all_cases)) == (small, in_all)
