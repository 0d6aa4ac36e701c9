"""`opserve demo`: train a network on handwritten digits, with remote convolutions."""

import time
import warnings
from contextlib import ExitStack
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from opserve_client import Client, DocumentedRuleWarning, Im2colBackward, Session, extras
from opserve_client.demo.check import Agreement
from opserve_client.demo.network import FIRST, SECOND, Array, DigitsNetwork, Gradients, Layer
from opserve_client.demo.picture import Guess, lines_of_curve, lines_of_digits, picture
from opserve_client.demo.remote import RemoteConvolution, Traffic
from opserve_client.private_service import Addresses, private_service
from opserve_kernels.status import ExitStatus

SEED = 20261121
EPOCHS = 12
BATCH = 64
RATE = 0.1
TEST_DIGITS = 360
REQUIRED_ACCURACY = 0.95
SHOWN, PICTURED = 4, 12  # digits in the terminal and in the picture


@dataclass(frozen=True, slots=True)
class Digits:
    """Handwritten digits of scikit-learn: images (N, 1, 8, 8), scaled to 0..1, and their digits."""

    images: Array
    digits: NDArray[np.int64]

    def batches(self, order: NDArray[np.int64]) -> list["Digits"]:
        """Returns the full batches in this order; an epoch skips the remaining digits."""
        chunks = [order[i : i + BATCH] for i in range(0, len(order) - BATCH + 1, BATCH)]
        return [Digits(self.images[chunk], self.digits[chunk]) for chunk in chunks]


@dataclass(slots=True)
class Report:
    """Results of the demo; times in seconds."""

    accuracy: float = 0.0
    losses: list[float] = field(default_factory=list[float])
    guesses: list[Guess] = field(default_factory=list[Guess])
    seconds: float = 0.0
    traffic: Traffic = field(default_factory=Traffic)
    agreement: Agreement = field(default_factory=Agreement)

    @property
    def passed(self) -> bool:
        """Whether the network learned and every result is within its bound."""
        return self.accuracy >= REQUIRED_ACCURACY and self.agreement.used_bound <= 1.0


class RemoteConvolutions:
    """The convolutions of the network on the service, each compared with one in float64."""

    def __init__(self, session: Session, report: Report) -> None:
        self._report = report
        self._remote = {
            layer: RemoteConvolution(session, layer, batch=BATCH, traffic=report.traffic)
            for layer in (FIRST, SECOND)
        }

    def forward(self, layer: Layer, images: Array, weight: Array, bias: Array) -> Array:
        """Returns the convolution of images (N, C, size, size)."""
        output = self._remote[layer].forward(images, weight, bias)
        self._report.agreement.compare_output(layer, (images, weight, bias), output)
        return output

    def gradients(
        self, layer: Layer, grad_output: Array, images: Array, weight: Array
    ) -> Gradients:
        """Returns the gradients of the layer's last convolution, which had these operands."""
        grads = self._remote[layer].gradients(grad_output)
        self._report.agreement.compare_gradients(layer, (grad_output, images, weight), grads)
        return grads


def main(picture_file: Path | None = None) -> int:
    """Runs the demo; returns the exit status.

    Args:
        picture_file: Where to write the loss and a few digits as a PNG file; None writes none.
    """
    console = Console()
    extras.require("demo", need="the demo")
    train_set, test_set = load_digits()
    with ExitStack() as stack:
        with console.status("starting a private service (the first start compiles the kernels)"):
            addresses = stack.enter_context(private_service(devices='["ascend910b"]'))
        report = train(addresses, train_set, test_set, console)
        show(report, console)
        show_one_call_over_connect(addresses, console)
    if picture_file is not None:
        picture_file.write_bytes(picture(report.losses, report.guesses))
        console.print(f"the loss and {len(report.guesses)} digits: {picture_file}")
    console.print("[green]passed[/]" if report.passed else "[red]failed[/]")
    return ExitStatus.DONE if report.passed else ExitStatus.FAILED


def load_digits() -> tuple[Digits, Digits]:
    """Returns training digits and test digits, shuffled by the demo's seed."""
    datasets: Any = import_module("sklearn.datasets")  # only the demo needs it; it has no types
    pixels, digits = datasets.load_digits(return_X_y=True)
    order = np.random.default_rng(SEED).permutation(len(digits))
    images = np.asarray(pixels[order] / 16.0, np.float32).reshape(-1, 1, 8, 8)
    digits = np.asarray(digits[order], np.int64)
    held = TEST_DIGITS
    return Digits(images[held:], digits[held:]), Digits(images[:held], digits[:held])


def train(addresses: Addresses, train_set: Digits, test_set: Digits, console: Console) -> Report:
    """Trains through the service, and compares every result with one in float64."""
    report = Report()
    started = time.perf_counter()
    # The vendor's page rejects FLOAT without HF32 operands, its source and samples do not.
    warnings.simplefilter("ignore", DocumentedRuleWarning)
    with Client(addresses.grpc) as client, client.open_session("ascend910b") as session:
        network = DigitsNetwork(RemoteConvolutions(session, report), seed=SEED)
        random = np.random.default_rng(SEED)
        steps = EPOCHS * (len(train_set.digits) // BATCH)
        with _progress(console) as progress:
            bar = progress.add_task("training", total=steps, loss=float("nan"))
            for epoch in range(EPOCHS):
                rate = RATE * (1 - epoch / EPOCHS)
                for batch in train_set.batches(random.permutation(len(train_set.digits))):
                    loss = network.train(batch.images, batch.digits, rate=rate)
                    report.losses.append(loss)
                    progress.update(bar, advance=1, loss=loss)
        guesses = network.logits(test_set.images).argmax(axis=1)
    report.accuracy = float((guesses == test_set.digits).mean())
    report.guesses = _shown(test_set, guesses)
    report.seconds = time.perf_counter() - started
    return report


def _shown(test_set: Digits, guesses: NDArray[np.int64]) -> list[Guess]:
    """The first test digits, and at the end up to two that the network takes for others."""
    every = [
        Guess(image=image[0], digit=int(digit), guess=int(guess))
        for image, digit, guess in zip(test_set.images, test_set.digits, guesses, strict=True)
    ]
    wrong = [guess for guess in every if not guess.is_right][:2]
    return [*every[: PICTURED - len(wrong)], *wrong]


def _progress(console: Console) -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("loss {task.fields[loss]:.3f}"),
        TimeElapsedColumn(),
        console=console,
    )


def show(report: Report, console: Console) -> None:
    """Prints the figures."""
    for line in lines_of_curve(report.losses):
        console.print(line, highlight=False)
    console.print(f"loss by step, {len(report.losses)} steps; test digits and guesses:\n")
    for line in lines_of_digits(report.guesses[:SHOWN]):
        console.print(line, highlight=False)
    table = Table(title="Digits, trained forward and backward over gRPC", min_width=60)
    table.add_column("what")
    table.add_column("value", justify="right")
    traffic, agreement = report.traffic, report.agreement
    rows = {
        "test accuracy": f"{report.accuracy:.1%} (at least {REQUIRED_ACCURACY:.0%})",
        **{f"calls of {name}": f"{len(seconds)}" for name, seconds in traffic.seconds.items()},
        "bytes moved": f"{traffic.bytes_moved / 2**20:.1f} MiB",
    }
    for name, seconds in traffic.seconds.items():
        p50, p99 = np.percentile(seconds, [50, 99]) * 1000
        rows[f"p50 and p99 of {name}"] = f"{p50:.2f} and {p99:.2f} ms"
    rows |= {
        "training": f"{report.seconds:.1f} s",
        "elements compared": f"{agreement.compared}",
        "greatest difference from float64": f"{agreement.difference:.2e}",
        "greatest share of the bound": f"{agreement.used_bound:.1%}",
    }
    for what, value in rows.items():
        table.add_row(what, value)
    console.print(table)


def show_one_call_over_connect(addresses: Addresses, console: Console) -> None:
    """Runs the vendor's sample of aclnnIm2colBackward over Connect."""
    columns = (np.arange(8, dtype=np.float32) + np.float32(0.1)).reshape(4, 2)
    with Client(addresses.rest) as client, client.open_session("ascend910b") as session:
        image = session.run(
            Im2colBackward(
                grad_output=columns,
                input_size=[1, 1],
                kernel_size=[2, 2],
                dilation=[1, 1],
                padding=[1, 1],
                stride=[1, 2],
            )
        )
    console.print(
        f"aclnnIm2colBackward over Connect: grad_output\n{columns}\nto a 1x1 image: {image.out}"
    )
