"""Calls of aclnnConvolutionBackward that break rules which only the page states.

Under DocumentedRules.WARN they are computed as the vendor's source does.
"""

from dataclasses import replace

from kernels.samples.convolution_backward import convolution
from kernels.samples.convolution_backward_errors import tensor_of
from kernels.samples.sample import Sample, Values
from opserve_kernels.tensor import DataType, Format

FLOAT, FLOAT16, BF16 = DataType.FLOAT, DataType.FLOAT16, DataType.BF16
HALF = (FLOAT16,) * 3
_910 = {"profile": "ascend910"}
_310P = {"profile": "ascend310p"}
_1D = convolution("1-D", (3, 2, 9), (4, 2, 3))
_2D = convolution("2-D", (2, 3, 6, 6), (4, 3, 3, 3))
_TRANSPOSED = convolution(
    "transposed", (2, 3, 4, 5), (3, 4, 3, 2), stride=(2, 2), output_padding=(1, 0), transposed=True
)
_EMPTY = convolution("no entries", (0, 3, 6, 6), (4, 3, 3, 3))

PAGE_SAMPLES: tuple[Sample, ...] = (
    convolution("1-D in format ND", (3, 2, 9), (4, 2, 3), format=Format.ND),
    convolution("FLOAT16 into FLOAT", (2, 3, 6, 6), (4, 3, 3, 3), dtypes=(FLOAT16,) * 3, outs=(FLOAT,) * 3),
    convolution("FLOAT into BF16 and FLOAT16", (2, 3, 6, 6), (4, 3, 3, 3), outs=(BF16, FLOAT16, BF16)),
    convolution("BF16 into FLOAT16", (2, 3, 6, 6), (4, 3, 3, 3), dtypes=(BF16,) * 3, outs=(FLOAT16,) * 3),
    convolution("FLOAT16 with groups into FLOAT", (2, 4, 6, 6), (4, 2, 3, 3), groups=2, dtypes=(FLOAT16,) * 3, outs=(FLOAT,) * 3),
    convolution("BF16 with groups into FLOAT", (2, 4, 6, 6), (4, 2, 3, 3), groups=2, dtypes=(BF16,) * 3, outs=(FLOAT,) * 3),
    convolution("FLOAT16 on 910 into FLOAT", (2, 4, 6, 6), (4, 2, 3, 3), groups=2, dtypes=HALF, outs=(FLOAT,) * 3, **_910),
    convolution("FLOAT into FLOAT16 on 310p", (2, 3, 6, 6), (4, 3, 3, 3), cube_math_type=1, outs=HALF, **_310P),
    convolution("saturated FLOAT16 into FLOAT", (2, 4, 6, 6), (4, 2, 3, 3), groups=2, dtypes=HALF, outs=(FLOAT,) * 3, values=Values.LARGE, **_910),
    convolution("saturated FLOAT into FLOAT16", (2, 3, 6, 6), (4, 3, 3, 3), cube_math_type=2, outs=HALF, values=Values.LARGE, **_310P),
    _1D.but("one tensor in ND", weight=tensor_of(_1D, "weight", format=Format.ND)),
    _2D.but("bias_sizes of another convolution", bias_sizes=(1,)),
    _2D.but("bias_sizes of two", bias_sizes=(4, 4), output_mask=(True, True, False)),
    replace(
        _2D.but(
            "grad_bias in NCHW on 910",
            cube_math_type=1,
            grad_bias=tensor_of(_2D, "grad_bias", format=Format.NCHW),
        ),
        profile="ascend910",
    ),
    _TRANSPOSED.but("grad_output without its output padding", output_padding=(0, 0)),
    convolution("a kernel of 256", (1, 2, 260), (2, 2, 256)),
    convolution("a padding of 256", (1, 1, 3, 3), (1, 1, 2, 2), padding=(256, 0), stride=(257, 1)),
    convolution("a dilation of 256", (1, 1, 3, 260), (1, 1, 2, 2), dilation=(1, 256)),
    convolution("a stride of 64", (1, 1, 3, 70, 3), (1, 1, 1, 2, 2), stride=(1, 64, 1)),
    _EMPTY.but(
        "no entries but in grad_output",
        grad_output=tensor_of(_EMPTY, "grad_output", shape=(2, 4, 3, 3)),
    ),
    convolution("no height", (2, 3, 0, 7), (4, 3, 1, 1), padding=(1, 0)).but(
        "no height", output_mask=(False, True, True)
    ),
    convolution("no kernels", (2, 3, 6, 6), (0, 3, 3, 3)).but(
        "no kernels", output_mask=(False, True, True)
    ),
)  # fmt: skip
"""Accepted with a warning under DocumentedRules.WARN, an error by default."""
CONTRADICTED_CALLS: tuple[Sample, ...] = (
    _2D.but("four output paddings", output_padding=(0, 0, 0, 0)),
    convolution("groups in 3-D", (1, 4, 4, 4, 4), (4, 2, 2, 2, 2), groups=2),
    convolution("depthwise in 3-D", (1, 4, 4, 4, 4), (8, 1, 2, 2, 2), groups=4, dtypes=(BF16,) * 3),
)
"""Accepted with a warning whatever DocumentedRules say."""
