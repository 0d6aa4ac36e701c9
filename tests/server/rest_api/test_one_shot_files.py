"""Files of arrays that the one-shot form takes."""

import io

import httpx2
import numpy as np

from server.rest_api.test_one_shot import DY, run


async def test_a_single_array_may_be_sent_as_npy(client: httpx2.AsyncClient) -> None:
    file = io.BytesIO()
    np.save(file, DY, allow_pickle=False)
    named = {name: {"array": "tensor"} for name in ("grad_output", "input", "weight")}
    answer = await run(client, file.getvalue(), **named)
    assert answer.status_code == 200, answer.text
