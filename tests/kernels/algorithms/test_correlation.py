"""The arithmetic of phases and taps."""

from hypothesis import given
from hypothesis import strategies as st

from opserve_kernels.algorithms.correlation import Correlation
from opserve_kernels.algorithms.product import GATHER, SCATTER
from opserve_kernels.convolution import Convolution
from opserve_kernels.gradients import Operand
from opserve_kernels.number_formats import FLOAT
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
    for phase in range(stride):
        met = [tap for tap in range(taps) if (phase + padding - tap * dilation) % stride == 0]
        assert product.taps_of(2, phase) == len(met)


@given(taps=st.integers(1, 20), stride=st.integers(1, 12), dilation=st.integers(1, 12))
def test_a_gathered_position_meets_every_tap(taps: int, stride: int, dilation: int) -> None:
    product = correlation(GATHER, taps=taps, stride=stride, padding=0, dilation=dilation)
    assert product.taps_of(2, 0) == taps


def test_counting_taps_takes_no_time_of_its_own() -> None:
    product = correlation(SCATTER, taps=10**12 + 1, stride=2, padding=0, dilation=1)
    assert product.taps_of(2, 0) == 5 * 10**11 + 1
