"""Sentences of the vendor's page for aclnnConvolutionBackward that rules of the error table quote.

CANN 8, in the page's own language. The page names a data format by a link, here by its text. The
range of OUTPUT_PADDING_BELOW_STRIDE is from the newer page of hicann/ops-nn.
"""

_A2 = "Atlas A2训练系列产品/Atlas 800I A2推理产品"
_PLAIN = "transposed=false场景"

FORMAT_OF = {
    "grad_output": "数据格式支持NCL、NCHW、NCDHW,且需要与input、weight一致。",
    "input": "数据格式支持NCL、NCHW、NCDHW,且需要与gradOutput、weight一致。",
    "weight": "数据格式支持NCL、NCHW、NCDHW,且需要与gradOutput、input一致。",
    "grad_input": "数据格式为NCL,NCHW、NCDHW,且与input一致。",
    "grad_weight": "数据格式为NCL,NCHW、NCDHW,且与input一致。",
    "grad_bias": "数据格式为ND。",
}
DTYPE_OF = {
    "grad_input": "数据类型与input和gradOutput中的高精度类型一致",
    "grad_weight": "数据类型与weight和gradOutput中的高精度类型一致",
    "grad_bias": "数据类型与gradOutput一致",
}
SHAPES_OF_GRAD_OUTPUT = "shape不支持broadcast,要求和input、weight满足卷积输入输出shape的推导关系。"
EMPTY_INPUT = "仅支持N或C维度为0的空tensor。"
EMPTY_WEIGHT = "不支持空tensor。"
BIAS_SIZES = "其在普通卷积中等于[weight.shape[0]],在转置卷积中等于[weight.shape[1] * groups]。"
OUTPUT_PADDING_LENGTH = "数组长度可以为weight维度减2。"
OUTPUT_PADDING_BELOW_STRIDE = "各维度的数值范围满足[0,stride对应维度数值)。"
DEPTHWISE_3D = (
    "当input输入类型为BFLOAT16且transposed=false时,对于Depthwise3D卷积的反向传播,支持groups>1,"
    "此时groups=gradOutput的C维度=gradInput的C维度。"
)
SIZES = f"{_A2}的1d、2d和3d {_PLAIN},各个维度的大小应该在[1,2147483646]的范围内。"
WEIGHT_SIZES = (
    f"{_A2}的2d和3d {_PLAIN},H、W的大小应该在[1,255]的范围内,"
    "其他维度的大小应该在[1,2147483646]的范围内。"
)
WEIGHT_SIZES_1D = (
    f"{_A2}的1d {_PLAIN},L的大小应该在[1,255]的范围内,其他维度的大小应该在[1,2147483646]的范围内。"
)
STRIDE_3D = (
    f"{_A2}的3d {_PLAIN},strideD应该在[1,2147483646]的范围内,strideH、strideW应该在[1,63]的范围内。"
)
STRIDE = f"{_A2}的1d和2d {_PLAIN},各个值都应该在[1,2147483646]的范围内。"
PADDING_3D = (
    f"{_A2}的3d {_PLAIN},paddingD应该在[0,2147483646]的范围内,"
    "paddingH、paddingW应该在[0,255]的范围内。"
)
PADDING = f"{_A2}的1d和2d {_PLAIN},各个值都应该在[0,255]的范围内。"
DILATION = f"{_A2}的1d、2d和3d {_PLAIN},各个值都应该在[1,255]的范围内。"
GROUPS = f"{_A2}的1d、2d和3d {_PLAIN},groups应该在[1,65535]的范围内。"
