"""The arithmetic of phases and taps."""

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opserve_kernels.algorithms.correlation.layout import GATHER, SCATTER
from opserve_kernels.algorithms.correlation.plan import (
    Correlation,
    ResultBlocks,
    longest_blocks,
    rows_inside,
)
from opserve_kernels.convolution import Convolution
from opserve_kernels.gradients import Operand
from opserve_kernels.number_formats import FLOAT, HF32
from opserve_kernels.tensor import DataType

NOTHING = Operand(place=0, dtype=DataType.FLOAT, parts=(((1, 1),), ((1, 1),)), number_format=FLOAT)


def correlation(
    direction: int, *, taps: int, stride: int, padding: int, dilation: int
) -> Correlation:
    convolution = Convolution(
        batch=1,
        groups=1,
        input_channels=1,
        output_channels=1,
        input_size=(1, 1, 1),
        output_size=(1, 1, 1),
        kernel_size=(1, 1, taps),
        stride=(1, 1, stride),
        padding=(0, 0, padding),
        dilation=(1, 1, dilation),
    )
    return Correlation(
        direction=direction,
        convolution=convolution,
        source=NOTHING,
        weight=NOTHING,
        result=NOTHING,
    )


@given(
    taps=st.integers(1, 20),
    stride=st.integers(1, 12),
    padding=st.integers(0, 30),
    dilation=st.integers(1, 12),
)
def test_a_phase_meets_the_taps_that_lead_to_whole_positions(
    taps: int, stride: int, padding: int, dilation: int
) -> None:
    product = correlation(SCATTER, taps=taps, stride=stride, padding=padding, dilation=dilation)
    met = [
        sum((phase + padding - tap * dilation) % stride == 0 for tap in range(taps))
        for phase in range(stride)
    ]
    assert product.phases_by_taps(2) == Counter(met)


@given(taps=st.integers(1, 20), stride=st.integers(1, 12), dilation=st.integers(1, 12))
def test_a_gathered_position_meets_every_tap(taps: int, stride: int, dilation: int) -> None:
    product = correlation(GATHER, taps=taps, stride=stride, padding=0, dilation=dilation)
    assert product.phases_by_taps(2) == {taps: 1}


def test_counting_taps_takes_no_extra_time() -> None:
    product = correlation(SCATTER, taps=10**12 + 1, stride=2, padding=0, dilation=1)
    assert product.phases_by_taps(2) == {5 * 10**11 + 1: 1, 5 * 10**11: 1}


@given(
    size=st.integers(1, 40),
    first=st.integers(-60, 60),
    step=st.integers(1, 12),
    count=st.integers(1, 12),
    rows=st.integers(1, 30),
    last_rows=st.integers(1, 30),
)
def test_few_blocks_report_how_many_rows_the_longest_reads(
    *, size: int, first: int, step: int, count: int, rows: int, last_rows: int
) -> None:
    def read(block: int) -> int:
        length = min(rows, last_rows) if block == count - 1 else rows
        return rows_inside(size, first + block * step, length)

    looked_at = longest_blocks(first, step, count)
    assert looked_at <= set(range(count))
    assert max(map(read, looked_at)) == max(map(read, range(count)))


def image(*, channels: int = 4, channel_step: int = 20, entry_step: int = 80) -> Operand:
    """Two entries of 4 x 5 positions."""
    positions = ((2, entry_step), (1, 20), (4, 5), (5, 1))
    parts = (((channels, channel_step),), positions)
    return Operand(place=0, dtype=DataType.FLOAT, parts=parts, number_format=FLOAT)


def valid_correlation(source: Operand, *, padding: int = 0, stride: int = 1) -> Correlation:
    """Two entries of 4 x 5 positions with 4 channels, under 3 taps along the width."""
    convolution = Convolution(
        batch=2,
        groups=1,
        input_channels=4,
        output_channels=3,
        input_size=(1, 4, 5),
        output_size=(1, 4, (5 + 2 * padding - 3) // stride + 1),
        kernel_size=(1, 1, 3),
        stride=(1, 1, stride),
        padding=(0, 0, padding),
        dilation=(1, 1, 1),
    )
    return Correlation(
        direction=GATHER, convolution=convolution, source=source, weight=NOTHING, result=NOTHING
    )


@pytest.mark.parametrize("source", [image(), image(channel_step=1000, entry_step=60)])
def test_a_source_without_padding_is_read_in_place(source: Operand) -> None:
    blocks = ResultBlocks.in_place(valid_correlation(source))
    assert blocks is not None
    (_, channel_step), (_, entry_step) = source.parts[0][0], source.parts[1][0]
    assert (blocks.channel_step, blocks.extent) == (channel_step, (entry_step // 20, 4, 5))


@pytest.mark.parametrize(
    "product",
    [
        valid_correlation(image(), padding=1),
        valid_correlation(image(), stride=2),
        valid_correlation(image(channels=3)),
        valid_correlation(image(entry_step=81)),
        valid_correlation(replace(image(), dtype=DataType.FLOAT16)),
        valid_correlation(replace(image(), number_format=HF32)),
        valid_correlation(image(channel_step=1 << 30)),
        valid_correlation(replace(image(), parts=(((4, 1),), ((2, 80), (20, 4))))),
    ],
    ids=(
        "padding",
        "phases",
        "channels that are not there",
        "entries beside planes",
        "16 bits",
        "rounded",
        "channels too far apart",
        "channels last",
    ),
)
def test_other_sources_are_copied(product: Correlation) -> None:
    assert ResultBlocks.in_place(product) is None
