"""Standards of libraries and of other vendors: PyTorch, WebNN, MIOpen, TensorFlow, MLU-OPS."""

from math import sqrt

import numpy as np

from opserve_kernels.verdict.vendor.standard import (
    Chunk,
    Metrics,
    Standard,
    Subject,
    Tally,
    count,
    peak,
    ratio,
    share,
)

_TORCH = {  # relative, absolute
    "float16": (1e-3, 1e-5),
    "bfloat16": (1.6e-2, 1e-5),
    "float32": (1.3e-6, 1e-5),
    "float64": (1e-7, 1e-7),
}
_WEBNN = ("float32", "float16")
_WEBNN_ULPS = 2  # for each product of a sum
_MIOPEN = {"float32": 1.5e-6, "float16": 8.2e-3, "bfloat16": 8 * 8.2e-3}
_MIOPEN_OF_WEIGHT = 2.0
_TENSORFLOW = {"float32": 1e-2, "float16": 1e-3}  # relative and absolute
_TENSORFLOW_OF_WEIGHT = 1e-4  # float32
_MLU = {"float32": 1e-5, "float16": 3e-3}


def _dtype(subject: Subject) -> str:
    return subject.pair.dtype.name


def _torch_measure(chunk: Chunk, subject: Subject) -> Tally:
    relative, absolute = _TORCH[_dtype(subject)]
    right = chunk.rounded.astype(np.float64)
    error = np.abs(chunk.given - right)
    beyond = error > absolute + relative * np.abs(right)
    return Tally(sums={"beyond": count(beyond)}, peaks={"error": peak(error)})


def _torch_conclude(tally: Tally, _: Subject) -> tuple[Metrics, bool]:
    beyond = tally.sums["beyond"]
    return {"elements beyond": beyond, "greatest error": tally.peaks["error"]}, beyond == 0


def _webnn_measure(chunk: Chunk, _: Subject) -> Tally:
    return Tally(peaks={"ulps": peak(chunk.ulps)})


def _webnn_conclude(tally: Tally, subject: Subject) -> tuple[Metrics, bool]:
    allowed = float(_WEBNN_ULPS * subject.terms)
    greatest = tally.peaks["ulps"]
    return {"greatest ULP": greatest, "allowed ULP": allowed}, greatest <= allowed


def _miopen_measure(chunk: Chunk, _: Subject) -> Tally:
    return Tally(
        sums={"squares": float(np.square(chunk.error).sum()), "elements": chunk.expected.size},
        peaks={"value": max(peak(np.abs(chunk.given)), peak(chunk.size))},
    )


def _miopen_conclude(tally: Tally, subject: Subject) -> tuple[Metrics, bool]:
    scale = sqrt(tally.sums["elements"]) * tally.peaks["value"]
    rms = share(sqrt(tally.sums["squares"]), scale)
    limit = _MIOPEN[_dtype(subject)] * (_MIOPEN_OF_WEIGHT if subject.of_weight else 1.0)
    return {"rms": rms, "allowed rms": limit}, rms <= limit


def _tensorflow_limit(subject: Subject) -> float:
    of_weight = subject.of_weight and _dtype(subject) == "float32"
    return _TENSORFLOW_OF_WEIGHT if of_weight else _TENSORFLOW[_dtype(subject)]


def _tensorflow_measure(chunk: Chunk, subject: Subject) -> Tally:
    limit = _tensorflow_limit(subject)
    return Tally(sums={"beyond": count(chunk.error > limit + limit * chunk.size)})


def _tensorflow_conclude(tally: Tally, subject: Subject) -> tuple[Metrics, bool]:
    beyond = tally.sums["beyond"]
    return {"elements beyond": beyond, "allowed": _tensorflow_limit(subject)}, beyond == 0


def _mlu_measure(chunk: Chunk, _: Subject) -> Tally:
    signed = chunk.given - chunk.expected
    relative = np.divide(
        chunk.error, chunk.size, out=np.zeros_like(chunk.error), where=chunk.size != 0
    )
    return Tally(
        sums={
            "errors": float(chunk.error.sum()),
            "values": float(chunk.size.sum()),
            "error squares": float(np.square(chunk.error).sum()),
            "value squares": float(np.square(chunk.size).sum()),
            "positive": count(signed > 0),
            "different": count(signed != 0),
        },
        peaks={"relative": peak(relative)},
    )


def _mlu_conclude(tally: Tally, subject: Subject) -> tuple[Metrics, bool]:
    sums = tally.sums
    first = ratio(sums["errors"], sums["values"]) if sums["errors"] else 0.0
    second = sqrt(ratio(sums["error squares"], sums["value squares"])) if first else 0.0
    limit = _MLU[_dtype(subject)]
    metrics = {
        "diff1": first,
        "diff2": second,
        "diff3": tally.peaks["relative"],
        "diff4": share(sums["positive"], sums["different"]),
    }
    return metrics, first <= limit and second <= limit


LIBRARIES = (
    Standard(
        name="torch-assert-close",
        version="2.13.0",
        source="torch.testing.assert_close, defaults by dtype",
        applies=lambda subject: _dtype(subject) in _TORCH,
        measure=_torch_measure,
        conclude=_torch_conclude,
    ),
    Standard(
        name="webnn-ulp",
        version="webnn#265",
        source="web-platform-tests webnn/resources/utils.js, conv2d",
        applies=lambda subject: _dtype(subject) in _WEBNN,
        measure=_webnn_measure,
        conclude=_webnn_conclude,
    ),
    Standard(
        name="miopen-rms",
        version="2d1fd997",
        source="ROCm/MIOpen driver/conv_driver.hpp",
        applies=lambda subject: _dtype(subject) in _MIOPEN,
        measure=_miopen_measure,
        conclude=_miopen_conclude,
    ),
    Standard(
        name="tensorflow",
        version="00b1ec2a",
        source="tensorflow conv_ops_test",
        applies=lambda subject: _dtype(subject) in _TENSORFLOW,
        measure=_tensorflow_measure,
        conclude=_tensorflow_conclude,
    ),
    Standard(
        name="mlu-ops",
        version="acceptance standard, conv class",
        source="Cambricon/mlu-ops docs/MLU-OPS-Accuracy-Acceptance-Standard.md",
        applies=lambda subject: _dtype(subject) in _MLU,
        measure=_mlu_measure,
        conclude=_mlu_conclude,
    ),
)
