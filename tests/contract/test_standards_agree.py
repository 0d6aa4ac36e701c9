"""Over gRPC and Connect foreign standards are reported beside the layers, and gate on request."""

import json
from dataclasses import replace

import numpy as np
import pytest

from opserve_client import AsyncClient
from opserve_client.private_service import Addresses
from opserve_kernels.cases.case import Fill, Kind, canonical
from opserve_kernels.operators.convolution_backward.cases.calls import ConvolutionCall
from opserve_kernels.verdict.json_form import from_json

pytestmark = pytest.mark.system
INTEGERS = ConvolutionCall(input=(2, 16, 8, 8), weight=(8, 16, 3, 3)).case()
UNIFORM = {
    name: replace(tensor, fill=Fill(kind=Kind.UNIFORM)) for name, tensor in INTEGERS.inputs.items()
}
REAL = canonical(replace(INTEGERS, tensors={**INTEGERS.tensors, **UNIFORM}).to_json())
OFF = 1e-6
"""Of a sum's magnitude: half of what 72 products in float32 may be off, but more than PyTorch's
default allows, 1.3e-6 of the result."""


@pytest.mark.parametrize("api", ["gRPC", "Connect"])
async def test_a_standard_is_reported_and_fails_as_a_gate_what_the_layers_pass(
    service: Addresses, api: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("opserve_client._async.conformance._DIGESTS_PAY_BYTES", 0)
    async with AsyncClient(service.grpc if api == "gRPC" else service.rest) as client:
        ask = client.conformance
        expected = await ask.get_golden(REAL)
        outputs = {
            name: (expected[f"values.{name}"] + OFF * expected[f"magnitudes.{name}"]).astype(
                np.float32
            )
            for name in INTEGERS.written
        }
        bare = await ask.verify(REAL, outputs)
        verified = await ask.verify(REAL, outputs, standards=["torch-assert-close", "miopen-rms"])
        gated = await ask.verify(
            REAL, outputs, standards=["miopen-rms"], gates=["torch-assert-close"] * 2
        )
    assert [one.status for one in (bare, verified, gated)] == ["PASSED", "PASSED", "FAILED"]
    assert "torch-assert-close" in gated.reason
    layers = [
        [(layer.name, layer.gate) for layer in from_json(json.loads(one.verdict)).outputs[0].layers]
        for one in (bare, verified, gated)
    ]
    rounding = ("rounding", True)
    assert layers == [
        [rounding],
        [rounding, ("torch-assert-close", False), ("miopen-rms", False)],
        [rounding, ("miopen-rms", False), ("torch-assert-close", True)],
    ]
