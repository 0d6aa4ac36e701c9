"""Ascend's standards: the open ones of CANN, the commercial dual benchmark, and msprobe's.

Numbers are those of the named editions, for the dtypes of outputs.
"""

from functools import partial
from math import sqrt

import numpy as np

from opserve_kernels.verdict.dtypes import Doubles
from opserve_kernels.verdict.vendor.standard import (
    HF32,
    SMALLEST,
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

_ECOSYSTEM = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-13, HF32: 2.0**-11}
_SMALL_DOMAIN = {"float16": 2.0**-11, "bfloat16": 2.0**-8, "float32": 2.0**-14, HF32: 2.0**-12}
_SMALL_ERROR = {"float16": 2.0**-16, "bfloat16": 2.0**-16, "float32": 2.0**-30, HF32: 2.0**-28}
_MIXED_RELATIVE = {"float16": 2.0**-9, "bfloat16": 2.0**-6, "float32": 2.0**-10, HF32: 2.0**-9}
_MIXED_ABSOLUTE = {"float16": 2.0**-9, "bfloat16": 2.0**-6, "float32": 2.0**-16, HF32: 2.0**-10}
_MIXED_GREATEST = {"float16": 1e-1, "bfloat16": 1e0, "float32": 1e-2, HF32: 1e-1}
_MIXED_SHARE, _MIXED_ULPS = 0.99, 32
_DUAL = {"l0": (10.0, 2.0, 2.0), "l1": (5.0, 1.5, 1.5), "l2": (2.0, 1.2, 1.2)}  # MARE, MERE, RMSE
_DUAL_SMALL = 2.0
_DUAL_RULES = {"hundredth": 1e-2, "thousandth": 1e-3, "ten-thousandth": 1e-4}
_COSINE, _GREATEST_ERROR = 0.99, 1e-3
_ULP_SHARES = {"float16": (1, 0.001), "bfloat16": (1, 0.001), "float32": (32, 0.05)}
_ULP_MEAN = 64.0  # float32 may meet this limit instead
_CANN = "hicann/cannbot-skills ops-precision-standard"
_MSPROBE = "Ascend/msprobe"


def _known(subject: Subject) -> bool:
    return subject.precision in _ECOSYSTEM


def _ecosystem_measure(chunk: Chunk, _: Subject) -> Tally:
    return Tally(
        sums={"relative": float(chunk.relative.sum()), "elements": chunk.expected.size},
        peaks={"relative": peak(chunk.relative)},
    )


def _ecosystem_conclude(tally: Tally, subject: Subject) -> tuple[Metrics, bool]:
    limit = _ECOSYSTEM[subject.precision]
    mean = share(tally.sums["relative"], tally.sums["elements"])
    greatest = tally.peaks["relative"]
    return {"MERE": mean, "MARE": greatest}, mean < limit and greatest < 10 * limit


def _small_measure(chunk: Chunk, subject: Subject) -> Tally:
    small = chunk.size < _SMALL_DOMAIN[subject.precision]
    limit = _SMALL_ERROR[subject.precision]
    return Tally(sums={"small": count(small), "small errors": count(small & (chunk.error > limit))})


def _small_conclude(tally: Tally, _: Subject) -> tuple[Metrics, bool]:
    return dict(tally.sums), tally.sums["small errors"] == 0


def _mixed_measure(chunk: Chunk, subject: Subject) -> Tally:
    kind = subject.precision
    within = chunk.error <= _MIXED_ABSOLUTE[kind] + _MIXED_RELATIVE[kind] * chunk.size
    far = chunk.error > _MIXED_GREATEST[kind]
    if np.any(far):
        far &= chunk.ulps > _MIXED_ULPS
    return Tally(
        sums={"within": count(within), "far": count(far), "elements": chunk.expected.size},
        peaks={"error": peak(chunk.error)},
    )


def _mixed_conclude(tally: Tally, _: Subject) -> tuple[Metrics, bool]:
    elements = tally.sums["elements"]
    within = share(tally.sums["within"], elements) if elements else 1.0
    metrics = {"share within": within, "greatest error": tally.peaks["error"]}
    return metrics, within >= _MIXED_SHARE and not tally.sums["far"]


def _errors(values: Doubles, chunk: Chunk, subject: Subject) -> dict[str, float]:
    """The sums of the dual benchmark for one of the two implementations."""
    error = np.abs(values - chunk.expected)
    small = chunk.size < _SMALL_DOMAIN[subject.precision]
    relative = (error / (chunk.size + SMALLEST))[~small]
    return {
        "relative": float(relative.sum()),
        "squares": float(np.square(error).sum()),
        "small errors": count(small & (error > _SMALL_ERROR[subject.precision])),
        "greatest": peak(relative),
    }


def _dual_measure(chunk: Chunk, subject: Subject) -> Tally:
    tally = Tally()
    for side, values in (("given", chunk.given), ("second", chunk.second)):
        found = _errors(values, chunk, subject)
        tally.peaks[side] = found.pop("greatest")
        tally.sums |= {f"{side} {name}": value for name, value in found.items()}
    return tally


def _dual_conclude(tally: Tally, _: Subject, *, level: str) -> tuple[Metrics, bool]:
    sums, peaks = tally.sums, tally.peaks
    ratios = {
        "MARE ratio": ratio(peaks["given"], peaks["second"]),
        "MERE ratio": ratio(sums["given relative"], sums["second relative"]),
        "RMSE ratio": ratio(sqrt(sums["given squares"]), sqrt(sums["second squares"])),
    }
    small = sums["given small errors"] / max(sums["second small errors"], 1.0)
    pairs = zip(ratios.values(), _DUAL[level], strict=True)
    passed = all(found <= limit for found, limit in pairs) and small <= _DUAL_SMALL
    return {**ratios, "small errors ratio": small}, passed


def _beyond_measure(chunk: Chunk, _: Subject, *, limit: float) -> Tally:
    beyond = count(chunk.relative >= limit)
    return Tally(sums={"beyond": beyond, "elements": chunk.expected.size})


def _thousandth_conclude(tally: Tally, _: Subject) -> tuple[Metrics, bool]:
    beyond = share(tally.sums["beyond"], tally.sums["elements"])
    return {"share below": 1 - beyond}, beyond <= _DUAL_RULES["thousandth"]


def _dual_share_conclude(tally: Tally, _: Subject, *, limit: float) -> tuple[Metrics, bool]:
    beyond = share(tally.sums["beyond"], tally.sums["elements"])
    return {"share beyond": beyond}, beyond < limit


def _cosine_measure(chunk: Chunk, _: Subject) -> Tally:
    return Tally(
        sums={
            "product": float((chunk.given * chunk.expected).sum()),
            "given": float(np.square(chunk.given).sum()),
            "expected": float(np.square(chunk.expected).sum()),
        },
        peaks={"error": peak(chunk.error)},
    )


def _cosine_conclude(tally: Tally, _: Subject) -> tuple[Metrics, bool]:
    sums = tally.sums
    lengths = sqrt(sums["given"]) * sqrt(sums["expected"])
    same = 1.0 if sums["given"] == sums["expected"] == 0 else 0.0
    cosine = sums["product"] / lengths if lengths else same
    greatest = tally.peaks["error"]
    passed = cosine > _COSINE and greatest < _GREATEST_ERROR
    return {"cosine": cosine, "greatest error": greatest}, passed


def _ulp_measure(chunk: Chunk, subject: Subject) -> Tally:
    far, _ = _ULP_SHARES[subject.precision]
    return Tally(
        sums={
            "far": count(chunk.ulps > far),
            "ulps": float(chunk.ulps.sum()),
            "elements": chunk.expected.size,
        }
    )


def _ulp_conclude(tally: Tally, subject: Subject) -> tuple[Metrics, bool]:
    _, limit = _ULP_SHARES[subject.precision]
    far = share(tally.sums["far"], tally.sums["elements"])
    mean = share(tally.sums["ulps"], tally.sums["elements"])
    passed = far < limit or (subject.precision == "float32" and mean < _ULP_MEAN)
    return {"share far": far, "mean ULP": mean}, passed


def _always(_: Subject) -> bool:
    return True


ASCEND = (
    Standard(
        name="cann-ecosystem",
        version="single benchmark, 6cb6e4c",
        source=f"{_CANN}, OPS_PRECISION_STANDARDS.md",
        applies=_known,
        measure=_ecosystem_measure,
        conclude=_ecosystem_conclude,
    ),
    Standard(
        name="cann-small-values",
        version="commercial, 6cb6e4c",
        source=f"{_CANN}, COMMERCIAL_OPS_PRECISION_DOCS.md",
        applies=_known,
        measure=_small_measure,
        conclude=_small_conclude,
    ),
    Standard(
        name="cann-mixed",
        version="experimental zh, 2026-07-15",
        source="hicann/opbase aa3cd74b docs/zh/ops_precision_standard/experimental_standard.md",
        applies=_known,
        measure=_mixed_measure,
        conclude=_mixed_conclude,
    ),
    *(
        Standard(
            name=f"cann-dual-{level}",
            version="commercial, 6cb6e4c",
            source=f"{_CANN}, COMMERCIAL_OPS_PRECISION_DOCS.md",
            applies=lambda subject: _known(subject) and subject.second is not None,
            measure=_dual_measure,
            conclude=partial(_dual_conclude, level=level),
        )
        for level in _DUAL
    ),
    Standard(
        name="msprobe-thousandth",
        version="8ff00da3",
        source=f"{_MSPROBE}, ThousandthStandard of conv1d and conv2d",
        applies=_always,
        measure=partial(_beyond_measure, limit=_DUAL_RULES["thousandth"]),
        conclude=_thousandth_conclude,
    ),
    *(
        Standard(
            name=f"msprobe-dual-{rule}",
            version="8ff00da3",
            source=_MSPROBE,
            applies=_always,
            measure=partial(_beyond_measure, limit=limit),
            conclude=partial(_dual_share_conclude, limit=limit),
        )
        for rule, limit in _DUAL_RULES.items()
    ),
    Standard(
        name="msprobe-cosine",
        version="8ff00da3",
        source=f"{_MSPROBE}: cosine, and greatest error",
        applies=_always,
        measure=_cosine_measure,
        conclude=_cosine_conclude,
    ),
    Standard(
        name="msprobe-ulp",
        version="8ff00da3",
        source=_MSPROBE,
        applies=lambda subject: subject.precision in _ULP_SHARES,
        measure=_ulp_measure,
        conclude=_ulp_conclude,
    ),
)
