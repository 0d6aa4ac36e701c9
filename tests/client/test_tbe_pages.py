"""The examples of the vendor's pages run with their own import lines, in the vendor's shapes."""

import tokenize
from collections.abc import Iterator, Mapping
from io import StringIO
from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from kernels.oracles.convolution_backward import Geometry, gradients
from opserve_client import Client, Session, TbeError, group_dict
from opserve_client.private_service import Addresses
from opserve_client.tbe import install
from vendor_pages import FOLDER

pytestmark = pytest.mark.system
Doubles = NDArray[np.float64]
Halves = NDArray[np.float16]
BLOCK = 16
NESTING = dict.fromkeys("([{", 1) | dict.fromkeys(")]}", -1)


@pytest.fixture
def live(service: Addresses) -> Iterator[Session]:
    with Client(service.grpc) as client, client.open_session("ascend910") as session:
        yield session


def example(page: str, heading: str) -> str:
    """The text below the last heading of a page, which ends with its example."""
    (path,) = FOLDER.glob(f"{page}_*.txt")
    return path.read_text(encoding="utf-8").rpartition(heading)[2].strip()


def with_line_breaks(statements: str) -> str:
    """Statements that a page shows on one line, each on its own: an import or an assignment."""
    tokens = list(tokenize.generate_tokens(StringIO(statements).readline))
    depth, starts = 0, list[int]()
    for token, following in pairwise(tokens):
        depth += NESTING.get(token.string, 0)
        assigned = token.type == tokenize.NAME and following.string == "="
        if depth == 0 and (assigned or token.string == "from"):
            starts.append(token.start[1])
    ends = [*starts[1:], len(statements)]
    return "\n".join(statements[a:b].strip() for a, b in zip(starts, ends, strict=True))


def run(statements: str, session: Session, data: Mapping[str, Halves]) -> dict[str, Any]:
    """The names that the statements leave."""
    names: dict[str, Any] = {}
    with install(session, data):
        exec(compile(statements, "example", "exec"), names)  # noqa: S102  a vendor's page, or ours
    return names


def small(seed: int, *shape: int) -> Halves:
    """Integers whose sums of products are exact in every order."""
    return np.random.default_rng(seed).integers(-4, 5, shape).astype(np.float16)


def doubles(array: Halves) -> Doubles:
    return array.astype(np.float64)


def image(plain: Doubles) -> Doubles:
    """(N, C, H, W) as the DSL shows it: (N, C1, H*W, 16)."""
    batch, channels, height, width = plain.shape
    shown = np.zeros((batch, -(-channels // BLOCK), height * width, BLOCK))
    for n, c, h, w in product(*map(range, plain.shape)):
        shown[n, c // BLOCK, h * width + w, c % BLOCK] = plain[n, c, h, w]
    return shown


def weight(plain: Doubles, groups: int, together: int) -> Doubles:
    """(Cout, Cin/groups, KH, KW) as the DSL shows it: (real_g, cin1_g*KH*KW, cout_g, 16).

    Args:
        plain: The weight.
        groups: Groups of channels.
        together: Groups in a superblock.
    """
    outputs, inputs, height, width = plain.shape
    each = outputs // groups
    blocks = -(-together * inputs // BLOCK)
    rows = -(-together * each // BLOCK) * BLOCK
    shown = np.zeros((-(-groups // together), blocks * height * width, rows, BLOCK))
    for n, c, kh, kw in product(*map(range, plain.shape)):
        superblock, member = divmod(n // each, together)
        block, lane = divmod(member * inputs + c, BLOCK)
        tap = (block * height + kh) * width + kw
        shown[superblock, tap, member * each + n % each, lane] = plain[n, c, kh, kw]
    return shown


def image_5hd(plain: Halves) -> Halves:
    """(N, C, H, W) as placeholders hold it: (N, C1, H, W, 16)."""
    batch, channels, *size = plain.shape
    shape = (batch, -(-channels // BLOCK), *size, BLOCK)
    return image(doubles(plain)).reshape(shape).astype(np.float16)


def weight_fractal_z(plain: Halves, groups: int, together: int) -> Halves:
    """(Cout, Cin/groups, KH, KW) as placeholders hold it: (G*C1*KH*KW, N1, 16, 16)."""
    shown = weight(doubles(plain), groups, together)
    superblocks, taps, rows, _ = shown.shape
    shape = (superblocks * taps, rows // BLOCK, BLOCK, BLOCK)
    return shown.reshape(shape).astype(np.float16)


def test_line_breaks_are_restored_before_statements() -> None:
    line = 'from a import b from c.d import e x = (1, 2) y = f(z=x, k={"from": [3]}) s = x [1]'
    assert with_line_breaks(line).splitlines() == [
        "from a import b",
        "from c.d import e",
        "x = (1, 2)",
        'y = f(z=x, k={"from": [3]})',
        "s = x [1]",
    ]


@pytest.mark.vendor_pages
def test_the_example_of_conv2d_backprop_input(live: Session) -> None:
    out_backprop, filters = small(1, 1, 16, 7, 7), small(2, 16, 16, 1, 1)
    data = {
        "out_backprop": image_5hd(out_backprop),
        "filters": weight_fractal_z(filters, groups=1, together=1),
    }
    names = run(with_line_breaks(example("000", "调用示例")), live, data)
    result = names["input_backprop"].numpy()
    expected = np.einsum("nkhw,kc->nchw", doubles(out_backprop), doubles(filters)[:, :, 0, 0])
    assert (result.shape, result.dtype.name) == ((1, 1, 49, 16), "float32")
    np.testing.assert_array_equal(result, image(expected))


@pytest.mark.vendor_pages
def test_the_example_of_conv2d_backprop_filter(live: Session) -> None:
    out_backprop, fmap = small(3, 1, 16, 7, 7), small(4, 1, 16, 7, 7)
    data = {"out_backprop": image_5hd(out_backprop), "fmap": image_5hd(fmap)}
    names = run(example("001", "\nExample\n"), live, data)
    result = np.asarray(names["filter_backprop"])
    expected = np.einsum("nkhw,nchw->kc", doubles(out_backprop), doubles(fmap))
    assert (result.shape, result.dtype.name) == ((1, 1, 16, 16), "float32")
    np.testing.assert_array_equal(result, weight(expected[:, :, None, None], 1, 1))


GROUPED = """
from tbe import dsl, tvm

images = {key: tvm.placeholder(shapes[key], name=key, dtype="float16") for key in shapes}
sizes = {"filter_sizes": filter_sizes, "out_backprop": images["out_backprop"]}
dx = dsl.conv2d_backprop_input(
    filters=images["filters"], input_sizes=input_sizes, para_dict=input_para_dict, **sizes)
dw = dsl.conv2d_backprop_filter(input_x=images["fmap"], para_dict=filter_para_dict, **sizes)
"""


@pytest.mark.parametrize(
    ("groups", "channels", "outputs", "together"),
    [
        pytest.param(1, 20, 40, 1, id="channels that fill no blocks"),
        pytest.param(4, 16, 32, 4, id="four groups on one diagonal"),
        pytest.param(33, 33, 33, 16, id="depthwise, the last superblock with one group"),
        pytest.param(3, 72, 24, 2, id="more blocks than channels need"),
    ],
)
def test_groups_in_both_calls(
    groups: int, channels: int, outputs: int, together: int, live: Session
) -> None:
    filter_sizes, input_sizes = (outputs, channels // groups, 3, 2), (2, channels, 7, 6)
    strides, padding, dilations = [2, 1], [1, 0, 0, 2], [1, 1, 1, 2]
    out_backprop, fmap = small(5, 2, outputs, 3, 6), small(6, *input_sizes)
    filters = small(7, *filter_sizes)
    data = {
        "out_backprop": image_5hd(out_backprop),
        "fmap": image_5hd(fmap),
        "filters": weight_fractal_z(filters, groups, together),
    }
    para_dict = {"strides": strides, "padding": padding, "dilations": dilations}
    names = {
        "shapes": {name: array.shape for name, array in data.items()},
        "filter_sizes": filter_sizes,
        "input_sizes": input_sizes,
        "input_para_dict": para_dict
        | {"res_dtype": "float32", "group_dict": group_dict(filter_sizes, groups)},
        "filter_para_dict": para_dict | {"groups": groups},
    }
    with install(live, data):
        exec(GROUPED, names)  # noqa: S102  the text above
    geometry = Geometry(
        stride=(2, 1), padding=(1, 0), dilation=(1, 2), transposed=False, groups=groups
    )
    expected = gradients(doubles(out_backprop), doubles(fmap), doubles(filters), geometry)
    np.testing.assert_array_equal(np.asarray(names["dx"]), image(expected.grad_input))
    shown = weight(expected.grad_weight, groups, together)
    np.testing.assert_array_equal(np.asarray(names["dw"]), shown)


@pytest.mark.vendor_pages
def test_a_broken_rule_of_the_example_has_the_vendors_code(live: Session) -> None:
    statements = with_line_breaks(example("000", "调用示例"))
    wrong = statements.replace("offset_w = None", "offset_w = 1")
    assert wrong != statements
    data = {
        "out_backprop": np.ones((1, 1, 7, 7, 16), np.float16),
        "filters": np.ones((1, 1, 16, 16), np.float16),
    }
    with pytest.raises(TbeError, match="offset_w") as raised:
        run(wrong, live, data)
    assert raised.value.args[0]["errCode"] == "E65004"


WRONG = """
from tbe import dsl, tvm

out_backprop = tvm.placeholder((1, 1, 7, 7, 16), name="out_backprop", dtype="float16")
fmap = tvm.placeholder((1, 1, 7, 7, 16), name="fmap", dtype="float16")
filters = tvm.placeholder((1, 1, 16, 16), name="filters", dtype="float16")
arguments = {"filter_sizes": (16, 16, 1, 1), "input_sizes": (1, 16, 7, 7)} | arguments
steps = {"strides": [1, 1], "padding": [0, 0, 0, 0], "dilations": [1, 1, 1, 1]} | steps
if call == "input":
    dsl.conv2d_backprop_input(filters, out_backprop, para_dict=steps, **arguments)
else:
    del arguments["input_sizes"]
    dsl.conv2d_backprop_filter(fmap, out_backprop, para_dict=steps, **arguments)
"""


@pytest.mark.parametrize(
    ("call", "arguments", "steps", "code"),
    [
        ("input", {"input_sizes": (1, 16, 7)}, {}, "E60006"),
        ("input", {}, {"res_dtype": "int8"}, "E60011"),
        ("filter", {"filter_sizes": (16, 16, 1)}, {}, "E64003"),
        ("filter", {"filter_sizes": (16, 0, 1, 1)}, {}, "E64004"),
        ("filter", {}, {"groups": 0}, "E64002"),
        ("input", {"input_sizes": (1, 16, 7, 7.5)}, {}, "E65001"),
        ("filter", {}, {"strides": [1, 1.5]}, "E64004"),
    ],
)
def test_an_undetermined_result_is_refused_with_the_vendors_code(
    call: str, arguments: Mapping[str, Any], steps: Mapping[str, Any], code: str, live: Session
) -> None:
    data = {name: small(8, 1, 1, 7, 7, 16) for name in ("out_backprop", "fmap")}
    data["filters"] = small(9, 1, 1, 16, 16)
    names = {"call": call, "arguments": arguments, "steps": steps}
    with install(live, data), pytest.raises(TbeError) as refusal:
        exec(WRONG, names)  # noqa: S102  the text above
    assert refusal.value.code == code
