"""Cases on a session: one round trip where a batch takes the bytes, and nothing is left behind."""

import numpy as np
import pytest

from client.fake_service import FakeService
from opserve_client import Session
from opserve_client.conform.on_device import run_on
from opserve_client.run_batches import SMALL_BYTES
from opserve_kernels.cases.arrays import arrays_of
from opserve_kernels.conformance.target import Ran
from opserve_kernels.operators.im2col_backward.cases.calls import FoldCall

_FLOAT_BYTES = 4


@pytest.mark.parametrize(
    ("rows", "submits"), [(SMALL_BYTES // _FLOAT_BYTES, 1), (SMALL_BYTES // _FLOAT_BYTES + 1, 3)]
)
def test_a_case_takes_one_round_trip_while_each_tensor_fits_a_batch(
    session: Session, fake: FakeService, rows: int, submits: int
) -> None:
    case = FoldCall(out=(1, 1, rows, 1), kernel=(1, 1)).case()
    storages = {name: placed.storage for name, placed in arrays_of(case, 0).items()}
    fake.calls.clear()

    outcome = run_on(session, case, storages, read=["out"])

    assert isinstance(outcome, Ran)
    assert set(outcome.storages) == {"out"}
    np.testing.assert_array_equal(outcome.storages["out"], storages["grad_output"])
    assert fake.calls.count("Submit") == submits
    assert not fake.buffers
