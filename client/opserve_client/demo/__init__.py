"""`opserve demo`: train a network on handwritten digits, with remote convolution gradients."""

import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from opserve_client import Client, Im2colBackward, Session, extras
from opserve_client.demo.check import Agreement
from opserve_client.demo.network import (
    FIRST,
    SECOND,
    Array,
    Convolution,
    DigitsNetwork,
    Gradients,
)
from opserve_client.demo.remote import RemoteConvolution, Traffic
from opserve_client.private_service import Addresses, private_service
from opserve_kernels.status import ExitStatus

SEED = 20261121
EPOCHS = 12
BATCH = 64
RATE = 0.1
TEST_DIGITS = 360
REQUIRED_ACCURACY = 0.95


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
    seconds: float = 0.0
    traffic: Traffic = field(default_factory=Traffic)
    agreement: Agreement = field(default_factory=Agreement)

    @property
    def passed(self) -> bool:
        """Whether the network learned and every gradient is within its bound."""
        return self.accuracy >= REQUIRED_ACCURACY and self.agreement.used_bound <= 1.0


def main() -> int:
    """Runs the demo; returns the exit status."""
    console = Console()
    extras.require("demo", need="the demo")
    train_set, test_set = load_digits()
    with ExitStack() as stack:
        with console.status("starting a private service (the first start compiles the kernels)"):
            addresses = stack.enter_context(private_service(devices='["ascend910b"]'))
        report = train(addresses, train_set, test_set, console)
        show(report, console)
        show_one_call_over_connect(addresses, console)
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
    """Trains through the service, and compares every gradient with one in float64."""
    report = Report()
    started = time.perf_counter()
    with Client(addresses.grpc) as client, client.open_session("ascend910b") as session:
        network = _network(session, report)
        random = np.random.default_rng(SEED)
        steps = EPOCHS * (len(train_set.digits) // BATCH)
        with _progress(console) as progress:
            bar = progress.add_task("training", total=steps, loss=float("nan"))
            for epoch in range(EPOCHS):
                rate = RATE * (1 - epoch / EPOCHS)
                for batch in train_set.batches(random.permutation(len(train_set.digits))):
                    loss = network.train(batch.images, batch.digits, rate=rate)
                    progress.update(bar, advance=1, loss=loss)
    guesses = network.logits(test_set.images).argmax(axis=1)
    report.accuracy = float((guesses == test_set.digits).mean())
    report.seconds = time.perf_counter() - started
    return report


def _network(session: Session, report: Report) -> DigitsNetwork:
    remote = {
        layer.name: RemoteConvolution(session, layer, batch=BATCH, traffic=report.traffic)
        for layer in (FIRST, SECOND)
    }

    def gradients(layer: Convolution, images: Array, grad_output: Array) -> Gradients:
        weight = network.parameters[f"{layer.name}.weight"]
        grads = remote[layer.name].gradients(grad_output, images, weight)
        report.agreement.compare(layer, (grad_output, images, weight), grads)
        return grads

    network = DigitsNetwork(gradients, seed=SEED)
    return network


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
    table = Table(title="Digits, trained through aclnnConvolutionBackward over gRPC", min_width=60)
    table.add_column("what")
    table.add_column("value", justify="right")
    p50, p99 = np.percentile(report.traffic.seconds, [50, 99]) * 1000
    agreement = report.agreement
    rows = {
        "test accuracy": f"{report.accuracy:.1%} (at least {REQUIRED_ACCURACY:.0%})",
        "two-phase calls": f"{len(report.traffic.seconds)}",
        "bytes moved": f"{report.traffic.bytes_moved / 2**20:.1f} MiB",
        "p50 per call": f"{p50:.2f} ms",
        "p99 per call": f"{p99:.2f} ms",
        "training": f"{report.seconds:.1f} s",
        "gradient elements compared": f"{agreement.compared}",
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
