"""Calls of aclnnConvTbcBackward: those that must succeed, and one for every row of its errors."""

from dataclasses import replace
from typing import Any

from kernels.samples.sample import ErrorSample, Sample, TensorSample, Values
from opserve_kernels.status import Status
from opserve_kernels.tensor import DataType, Format

FLOAT, FLOAT16, BF16 = DataType.FLOAT, DataType.FLOAT16, DataType.BF16
DOUBLE = DataType.DOUBLE
Shape = tuple[int, ...]


def tbc(name: str, image: Shape, weight: Shape, pad: int = 0, **changes: Any) -> Sample:
    """A call in float32 with cube_math_type 0, unless changed.

    Args:
        name: Of the sample.
        image: T, B, Cin.
        weight: K, Cin, Cout.
        pad: Zeros on both sides.
        changes: `dtypes` of self, input, weight and bias, whose gradients have theirs; `results`,
            other dtypes of the gradients; `cube_math_type`, `values`, the `layout` of a tensor,
            `profile`.
    """
    dtypes = changes.pop("dtypes", (FLOAT,) * 4)
    results = changes.pop("results", dtypes[1:])
    values = changes.pop("values", Values.NORMAL)
    profile = changes.pop("profile", "ascend910b")
    layout: dict[str, Any] = changes.pop("layout", {})
    scalars: dict[str, Any] = {"pad": pad, "cube_math_type": 0, **changes}
    output = (image[0] + 2 * pad + 1 - weight[0], image[1], weight[2])
    shapes = (output, image, weight, weight[2:])
    names = ("self", "input", "weight", "bias")
    tensors: dict[str, TensorSample | None] = {
        tensor: TensorSample(shape=shape, dtype=dtype, values=values)
        for tensor, shape, dtype in zip(names, shapes, dtypes, strict=True)
    }
    for tensor, shape, dtype in zip(names[1:], shapes[1:], results, strict=True):
        tensors[f"grad_{tensor}"] = TensorSample(shape=shape, dtype=dtype)
    for tensor, steps in layout.items():
        changed = tensors[tensor]
        assert changed is not None
        tensors[tensor] = replace(changed, **steps)
    return Sample(
        name=name, operator="conv_tbc_backward", tensors=tensors, scalars=scalars, profile=profile
    )


_IMAGE, _WEIGHT = (7, 2, 3), (3, 3, 5)
_HALVES, _BRAINS, _DOUBLES = (FLOAT16,) * 4, (BF16,) * 4, (DOUBLE,) * 4
_NCL: dict[str, Any] = {
    name: {"format": Format.NCL} for name in ("self", "input", "weight", "grad_input")
}

SAMPLES: tuple[Sample, ...] = (
    tbc("plain", _IMAGE, _WEIGHT),
    tbc("vendor's", (5, 1, 2), (1, 2, 2), cube_math_type=1, values=Values.ONES),
    tbc("one of everything", (1, 1, 1), (1, 1, 1)),
    tbc("pad", _IMAGE, _WEIGHT, 1),
    tbc("pad as wide as the kernel", _IMAGE, _WEIGHT, 3),
    tbc("pad beyond the kernel", _IMAGE, _WEIGHT, 6),
    tbc("even kernel", (9, 3, 4), (4, 4, 2), 2),
    tbc("kernel of 1", (6, 2, 5), (1, 5, 7)),
    tbc("kernel of 1 with a pad", (6, 2, 5), (1, 5, 7), 2),
    tbc("kernel as long as the input", (5, 2, 3), (5, 3, 4)),
    tbc("kernel longer than the input", (3, 2, 3), (6, 3, 4), 2),
    tbc("kernel as long as the padded input", (3, 2, 3), (7, 3, 4), 2),
    tbc("one entry", (40, 1, 6), (5, 6, 8), 2),
    tbc("one time", (1, 6, 4), (3, 4, 3), 1),
    tbc("many entries", (4, 70, 3), (2, 3, 4)),
    tbc("many channels", (12, 2, 33), (3, 33, 40), 1),
    tbc("one channel", (30, 3, 1), (4, 1, 1), 1),
    tbc("a long input", (300, 2, 2), (3, 2, 3), 1),
    tbc("integers", (9, 2, 4), (3, 4, 5), 1, values=Values.INTEGERS),
    tbc("NaN and infinity", (9, 2, 4), (3, 4, 5), 1, values=Values.SPECIAL),
    tbc("FLOAT16", _IMAGE, _WEIGHT, 1, dtypes=_HALVES),
    tbc("FLOAT16 overflows", _IMAGE, _WEIGHT, 1, dtypes=_HALVES, values=Values.LARGE),
    tbc("BF16", _IMAGE, _WEIGHT, 1, dtypes=_BRAINS),
    *(tbc(f"HF32 by {kind}", _IMAGE, _WEIGHT, 1, cube_math_type=kind) for kind in (1, 3)),
    tbc("FLOAT by FLOAT16", _IMAGE, _WEIGHT, 1, cube_math_type=2),
    tbc("BF16 by FLOAT16", _IMAGE, _WEIGHT, 1, cube_math_type=2, dtypes=_BRAINS),
    tbc("FLOAT16 beside FLOAT", _IMAGE, _WEIGHT, 1, dtypes=(FLOAT, FLOAT16, FLOAT16, FLOAT)),
    tbc("BF16 beside FLOAT16", _IMAGE, _WEIGHT, 1, dtypes=(BF16, FLOAT16, BF16, FLOAT16)),
    tbc("bias in BF16", _IMAGE, _WEIGHT, dtypes=(FLOAT, FLOAT, FLOAT, BF16)),
    tbc("format NCL", _IMAGE, _WEIGHT, 1, layout=_NCL),
    tbc(
        "inputs with gaps",
        _IMAGE,
        _WEIGHT,
        1,
        layout={
            "self": {"strides": (30, 12, 2), "offset": 1},
            "input": {"strides": (20, 7, 2), "offset": 3},
            "weight": {"strides": (40, 11, 2), "offset": 2},
            "bias": {"strides": (3,), "offset": 1},
        },
    ),
    tbc(
        "gradients with gaps",
        _IMAGE,
        _WEIGHT,
        1,
        dtypes=_HALVES,
        layout={
            "grad_input": {"strides": (20, 7, 2), "offset": 3},
            "grad_weight": {"strides": (40, 11, 2), "offset": 2},
            "grad_bias": {"strides": (3,), "offset": 1},
        },
    ),
    tbc(
        "axes of NCL",
        _IMAGE,
        _WEIGHT,
        1,
        layout={
            "self": {"strides": (1, 35, 7)},
            "input": {"strides": (1, 21, 7)},
            "grad_input": {"strides": (1, 21, 7)},
            "weight": {"strides": (1, 3, 9)},
        },
    ),
    tbc("input repeated over the batch", _IMAGE, _WEIGHT, layout={"input": {"strides": (3, 0, 1)}}),
    tbc("self of one element", _IMAGE, _WEIGHT, layout={"self": {"strides": (0, 0, 0)}}),
    tbc("no times", (0, 2, 3), _WEIGHT, 2),
    tbc("no times in BF16", (0, 2, 3), _WEIGHT, 2, dtypes=_BRAINS),
    tbc("no input channels", (7, 2, 0), (3, 0, 5), 1),
    tbc("no taps", _IMAGE, (0, 3, 5)),
    tbc("no taps on 910", _IMAGE, (0, 3, 5), dtypes=_HALVES, profile="ascend910"),
    tbc("FLOAT by FLOAT16 on 910", _IMAGE, _WEIGHT, 1, cube_math_type=1, profile="ascend910"),
    tbc("FLOAT16 on 910", _IMAGE, _WEIGHT, 1, dtypes=_HALVES, profile="ascend910"),
    tbc(
        "FLOAT16 saturates on 910",
        _IMAGE,
        _WEIGHT,
        1,
        dtypes=_HALVES,
        values=Values.LARGE,
        profile="ascend910",
    ),
    tbc("DOUBLE", _IMAGE, _WEIGHT, 1, dtypes=_DOUBLES, profile="reference"),
    tbc(
        "many channels in DOUBLE", (9, 2, 17), (3, 17, 20), 2, dtypes=_DOUBLES, profile="reference"
    ),
    tbc("no taps in DOUBLE", _IMAGE, (0, 3, 5), dtypes=_DOUBLES, profile="reference"),
    tbc(
        "FLOAT16 into DOUBLE",
        _IMAGE,
        _WEIGHT,
        1,
        dtypes=_HALVES,
        results=(DOUBLE,) * 3,
        profile="reference",
    ),
)

BASE = tbc("base", _IMAGE, _WEIGHT, 1, dtypes=_HALVES)
_OLDER = replace(BASE, profile="ascend910")
_OPERANDS, _GRADIENTS = ("self", "input", "weight"), ("grad_input", "grad_weight", "grad_bias")
_TENSORS = (*_OPERANDS, "bias", *_GRADIENTS)
_IMAGES = (*_OPERANDS, *_GRADIENTS[:2])
_VECTORS = ("bias", "grad_bias")
_FAR = 2**31


def tensor_of(name: str, **changes: Any) -> TensorSample:
    """A tensor of BASE with other members."""
    tensor = BASE.tensors[name]
    assert tensor is not None
    return replace(tensor, **changes)


def _broken(rule: str, parameter: str, base: Sample = BASE, /, **changes: Any) -> ErrorSample:
    return ErrorSample(
        rule=rule,
        sample=base.but(f"{parameter}: {rule}", **changes),
        status=Status.ACLNN_ERR_PARAM_INVALID,
        parameter=parameter,
    )


def _in_dtype(rule: str, name: str, dtype: DataType, base: Sample = BASE) -> ErrorSample:
    return _broken(rule, name, base, **{name: tensor_of(name, dtype=dtype)})


def _with_gradient(name: str, **changes: Any) -> dict[str, TensorSample]:
    """A tensor and its gradient, changed alike."""
    return {each: tensor_of(each, **changes) for each in (name, f"grad_{name}")}


ERROR_SAMPLES: tuple[ErrorSample, ...] = (
    *(
        replace(_broken("missing", name, **{name: None}), status=Status.ACLNN_ERR_PARAM_NULLPTR)
        for name in (*_TENSORS, "pad", "cube_math_type")
    ),
    *(
        _in_dtype("dtype is not FLOAT, FLOAT16, BF16 or, on reference, DOUBLE", name, DOUBLE)
        for name in _TENSORS
    ),
    *(_in_dtype("dtype is BF16 on ascend910", name, BF16, _OLDER) for name in _TENSORS),
    *(
        _broken("format is not ND or NCL", name, **{name: tensor_of(name, format=Format.NCHW)})
        for name in _IMAGES
    ),
    *(
        _broken("format is not ND", name, **{name: tensor_of(name, format=Format.NCL)})
        for name in _VECTORS
    ),
    _broken("empty", "self", self=tensor_of("self", shape=(7, 0, 5))),
    *(
        _broken("not 3 dimensions", name, **{name: tensor_of(name, shape=(3, 5))})
        for name in _IMAGES
    ),
    *(
        _broken("not 1 dimension", name, **{name: tensor_of(name, shape=(5, 1))})
        for name in _VECTORS
    ),
    _broken(
        "dimension 1 is not the channels of input",
        "weight",
        **_with_gradient("weight", shape=(3, 4, 5)),
    ),
    _broken("size is not weight's dimension 2", "bias", **_with_gradient("bias", shape=(4,))),
    _broken("negative", "pad", pad=-1),
    _broken(
        "more taps than the padded input has positions, and one more",
        "weight",
        **_with_gradient("weight", shape=(11, 3, 5)),
    ),
    _broken(
        "shape is not that of the convolution's output",
        "self",
        self=tensor_of("self", shape=(6, 2, 5)),
    ),
    *(
        _broken(f"shape is not that of {name}", f"grad_{name}", **{f"grad_{name}": changed})
        for name, changed in (
            ("input", tensor_of("grad_input", shape=(7, 3, 2))),
            ("weight", tensor_of("grad_weight", shape=(3, 5, 3))),
            ("bias", tensor_of("grad_bias", shape=(4,))),
        )
    ),
    _broken("not 0, 1, 2 or 3", "cube_math_type", cube_math_type=4),
    _broken(
        "0 or 3 with FLOAT on ascend910",
        "cube_math_type",
        tbc("FLOAT on 910", _IMAGE, _WEIGHT, 1, profile="ascend910"),
        cube_math_type=3,
    ),
    *(
        _in_dtype(f"dtype is not that of {name} on ascend910b and ascend910", f"grad_{name}", FLOAT)
        for name in ("input", "weight", "bias")
    ),
)
_ON_PRODUCTS = "on ascend910b and ascend910"
CONTRADICTED_SAMPLES: tuple[ErrorSample, ...] = (
    *(
        _broken(
            f"dtype is not that of self {_ON_PRODUCTS}", name, **_with_gradient(name, dtype=FLOAT)
        )
        for name in ("input", "weight", "bias")
    ),
    _broken(
        f"above 2147483647 {_ON_PRODUCTS}",
        "pad",
        tbc("far", (1, 1, 1), (1, 1, 1), _FAR, layout={"self": {"strides": (0, 0, 0)}}),
        cube_math_type=1,
    ),
    *(
        _broken(
            f"{kind} with FLOAT on ascend910b",
            "cube_math_type",
            tbc("FLOAT", _IMAGE, _WEIGHT, 1),
            cube_math_type=kind,
        )
        for kind in (0, 3)
    ),
    _broken(
        "2 with BF16 on ascend910b",
        "cube_math_type",
        tbc("BF16", _IMAGE, _WEIGHT, 1, dtypes=_BRAINS),
        cube_math_type=2,
    ),
    _broken("3 with FLOAT16 on ascend910", "cube_math_type", _OLDER, cube_math_type=3),
)
"""Calls that break a rule of the page, which is a warning."""
