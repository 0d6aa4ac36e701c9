"""Golden values: what is asked of the arbiter once, and what is never asked."""

from pathlib import Path

import numpy as np
import pytest

from client.fake_service import FakeService
from opserve_client import Client
from opserve_client.conform.goldens import Goldens
from opserve_client.conform.targets.device import Sessions, Terms
from opserve_kernels.cases.arrays import arrays_of
from opserve_kernels.cases.cache import Cache
from opserve_kernels.cases.calls import Setting
from opserve_kernels.cases.case import Kind
from opserve_kernels.operators.im2col_backward.cases.calls import FoldCall

CALL = FoldCall(out=(1, 2, 3, 4), kernel=(1, 1))


@pytest.mark.parametrize(("kind", "calls"), [(Kind.INTEGER, 1), (Kind.NORMAL, 2)])
def test_magnitudes_are_asked_for_where_a_verdict_needs_them(
    client: Client, fake: FakeService, tmp_path: Path, kind: Kind, calls: int
) -> None:
    goldens = Goldens(Sessions(client, Terms()), {"im2col_backward": "1"}, Cache(tmp_path))
    case = CALL.case(Setting(kind=kind))
    tensors = arrays_of(case, 5)
    given = tensors["grad_output"].elements.astype(np.float64).reshape(1, 2, 3, 4)

    first = goldens.of(case, tensors, 5)["out"]
    asked = fake.commands.count("execute")
    again = goldens.of(case, tensors, 5)["out"]

    assert (asked, fake.commands.count("execute")) == (calls, calls)
    for golden in (first, again):
        np.testing.assert_array_equal(golden.values, given)
        sizes = golden.magnitudes
        assert (sizes is None) == (calls == 1)
        np.testing.assert_array_equal(np.abs(given) if sizes is None else sizes, np.abs(given))
