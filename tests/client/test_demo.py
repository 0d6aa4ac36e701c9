"""The demo checks itself: its float64 results are right, and what is wrong makes it fail."""

import struct
import zlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from kernels.oracles.convolution_backward import Geometry, forward, gradients
from opserve_client import demo
from opserve_client.cli import app
from opserve_client.demo.check import Agreement, exact_gradients, exact_output
from opserve_client.demo.network import FIRST, SECOND, Array, DigitsNetwork, Gradients, Layer
from opserve_client.demo.picture import Guess, lines_of_curve, lines_of_digits, picture

BATCH = 3
FALLING = [2.0 * 0.9**step for step in range(100)]


def operands(layer: Layer) -> tuple[Array, Array, Array]:
    """grad_output, images and weight of a call."""
    random = np.random.default_rng(7)
    channels, kernels = layer.channels
    shapes = (
        (BATCH, kernels, layer.output_size, layer.output_size),
        (BATCH, channels, layer.size, layer.size),
        (kernels, channels, 3, 3),
    )
    first, second, third = (random.standard_normal(shape, np.float32) for shape in shapes)
    return first, second, third


def bias_of(layer: Layer) -> Array:
    return np.linspace(-1, 1, layer.channels[1], dtype=np.float32)


def geometry_of(layer: Layer) -> Geometry:
    steps = {"stride": (layer.stride,) * 2, "padding": (1, 1), "dilation": (1, 1)}
    return Geometry(**steps, transposed=False, groups=1)


def rounded(layer: Layer) -> Gradients:
    """The right gradients, rounded once."""
    exact = exact_gradients(layer, *(array.astype(np.float64) for array in operands(layer)))
    grad_input, grad_weight, grad_bias = (array.astype(np.float32) for array in exact)
    return Gradients(grad_input, grad_weight, grad_bias)


@pytest.mark.parametrize("layer", [FIRST, SECOND])
def test_the_local_results_are_those_of_the_oracle(layer: Layer) -> None:
    grad_output, images, weight = (array.astype(np.float64) for array in operands(layer))
    bias = bias_of(layer).astype(np.float64)
    oracle = gradients(grad_output, images, weight, geometry_of(layer))
    output = forward(images, weight, grad_output.shape, geometry_of(layer))

    exact = exact_gradients(layer, grad_output, images, weight)

    for given, right in zip(
        (*exact, exact_output(layer, images, weight, bias)),
        (oracle.grad_input, oracle.grad_weight, oracle.grad_bias, output + bias[:, None, None]),
        strict=True,
    ):
        np.testing.assert_allclose(given, right, rtol=1e-12, atol=1e-12)


def test_right_gradients_are_within_their_bound_and_a_wrong_element_is_not() -> None:
    agreement = Agreement()
    agreement.compare_gradients(SECOND, operands(SECOND), rounded(SECOND))
    assert agreement.used_bound <= 1
    wrong = rounded(SECOND)
    wrong.grad_weight[0, 0, 0, 0] *= np.float32(1.001)
    agreement.compare_gradients(SECOND, operands(SECOND), wrong)
    assert agreement.used_bound > 1


def test_a_right_output_is_within_its_bound_and_one_without_bias_is_not() -> None:
    _, images, weight = operands(SECOND)
    bias, agreement = bias_of(SECOND), Agreement()
    doubles = [array.astype(np.float64) for array in (images, weight, bias)]
    right = exact_output(SECOND, *doubles).astype(np.float32)
    agreement.compare_output(SECOND, (images, weight, bias), right)
    assert agreement.used_bound <= 1
    agreement.compare_output(SECOND, (images, weight, bias), right - bias[:, None, None])
    assert agreement.used_bound > 1


def test_the_demo_fails_below_its_accuracy_and_beyond_its_bound() -> None:
    good = demo.Report(accuracy=0.96)
    assert good.passed
    assert not replace(good, accuracy=0.94).passed
    assert not replace(good, agreement=Agreement(used_bound=1.01)).passed


class Exactly:
    """Convolutions in float64, rounded."""

    def forward(self, layer: Layer, images: Array, weight: Array, bias: Array) -> Array:
        doubles = (array.astype(np.float64) for array in (images, weight, bias))
        return exact_output(layer, *doubles).astype(np.float32)

    def gradients(
        self, layer: Layer, grad_output: Array, images: Array, weight: Array
    ) -> Gradients:
        doubles = (array.astype(np.float64) for array in (grad_output, images, weight))
        first, second, third = (np.asarray(a, np.float32) for a in exact_gradients(layer, *doubles))
        return Gradients(first, second, third)


def test_a_step_along_the_gradients_lowers_the_loss() -> None:
    train_set, _ = demo.load_digits()
    batch = train_set.batches(np.arange(demo.BATCH))[0]
    network = DigitsNetwork(Exactly(), seed=demo.SEED)
    losses = [network.train(batch.images, batch.digits, rate=0.05) for _ in range(10)]
    assert losses[-1] < losses[0] / 2


def guess_of(digit: int, guess: int) -> Guess:
    return Guess(image=np.eye(8, dtype=np.float32), digit=digit, guess=guess)


def pixels_of(png: bytes) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    """The pixels of a PNG file whose rows have no filter; the checksum of each chunk is checked."""
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    at, chunks = 8, dict[bytes, bytes]()
    while at < len(png):
        (size,) = struct.unpack_from(">I", png, at)
        name, content = png[at + 4 : at + 8], png[at + 8 : at + 8 + size]
        assert struct.unpack_from(">I", png, at + 8 + size) == (zlib.crc32(name + content),)
        chunks[name], at = content, at + 12 + size
    width, height, depth, colors = struct.unpack_from(">IIBB", chunks[b"IHDR"])
    assert (depth, colors, list(chunks)) == (8, 2, [b"IHDR", b"IDAT", b"IEND"])
    rows = np.frombuffer(zlib.decompress(chunks[b"IDAT"]), np.uint8).reshape(height, 1 + 3 * width)
    assert not rows[:, 0].any()
    return rows[:, 1:].reshape(height, width, 3)


def test_the_picture_has_a_falling_curve_and_the_digits() -> None:
    blue, red = (30, 100, 200), (200, 40, 40)
    right, wrong = guess_of(3, 3), guess_of(3, 8)

    found = pixels_of(picture(FALLING, [right, wrong]))

    rows, columns = np.nonzero((found == blue).all(axis=2))
    tops = [rows[columns == column].min() for column in (columns.min(), columns.max())]
    assert tops[0] < tops[1] - 200
    assert np.any((found == red).all(axis=2))
    assert not np.any((pixels_of(picture(FALLING, [right])) == red).all(axis=2))
    ink = np.all(found[:, columns.max() + 30 :] == 0, axis=2)
    assert np.count_nonzero(ink) == 2 * 8 * 8 * 8  # two diagonals of pixels 8 x 8 times as large


def test_the_terminal_shows_a_falling_curve_and_the_digits() -> None:
    curve = lines_of_curve(FALLING, columns=20, rows=4)
    assert [len(line) for line in curve] == [27] * 4
    assert curve[0].startswith(" 2.00 ┤⡇") or curve[0][7] != "⠀"
    assert curve[0][-1] == "⠀"
    assert curve[-1][-1] != "⠀"

    digits = lines_of_digits([guess_of(3, 3), guess_of(3, 8)])
    assert digits[0] == "██" + 14 * " " + "  " + "██" + 14 * " "
    assert digits[-1].split() == ["3", "8,", "not", "3"]


def test_a_picture_that_cannot_be_written_ends_the_demo_before_it_starts(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["demo", "--picture", str(tmp_path / "no" / "demo.png")])
    assert isinstance(done.exception, FileNotFoundError)
