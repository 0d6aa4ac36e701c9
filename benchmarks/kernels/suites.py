"""Shapes of the reported figures, from common networks."""

from dataclasses import replace

from benchmarks.kernels.shapes import ConvolutionShape, FoldShape, convolution

CONVOLUTIONS: tuple[ConvolutionShape, ...] = tuple(
    convolution(name, text)
    for name, text in (
        ("rn50_stem7s2", "b4 c3 o64 i224x224 k7 s2 p3"),
        ("rn50_3x3_64", "b4 c64 o64 i56x56 k3 p1"),
        ("rn50_3x3_128", "b4 c128 o128 i28x28 k3 p1"),
        ("rn50_3x3_256", "b4 c256 o256 i14x14 k3 p1"),
        ("rn50_3x3_256_N16", "b16 c256 o256 i14x14 k3 p1"),
        ("rn50_3x3_512", "b4 c512 o512 i7x7 k3 p1"),
        ("rn50_3x3_512_N16", "b16 c512 o512 i7x7 k3 p1"),
        ("rn50_1x1_64_256", "b4 c64 o256 i56x56 k1"),
        ("rn50_1x1_1024_256", "b4 c1024 o256 i14x14 k1"),
        ("rn50_1x1_512_2048_N8", "b8 c512 o2048 i7x7 k1"),
        ("rn50_1x1s2_512_1024", "b4 c512 o1024 i28x28 k1 s2"),
        ("rn50_3x3s2_128", "b4 c128 o128 i56x56 k3 s2 p1"),
        ("rn50_3x3s2_256", "b4 c256 o256 i28x28 k3 s2 p1"),
        ("mbv2_dw3x3_s1", "b4 c144 o144 i56x56 k3 p1 g144"),
        ("mbv2_dw3x3_s2", "b4 c96 o96 i112x112 k3 s2 p1 g96"),
        ("mbv2_dw3x3_384_14", "b8 c384 o384 i14x14 k3 p1 g384"),
        ("effnet_dw5x5_240", "b4 c240 o240 i28x28 k5 p2 g240"),
        ("dlab_dil2_256", "b2 c256 o256 i33x33 k3 p2 d2"),
        ("dlab_dil12_256", "b1 c512 o256 i33x33 k3 p12 d12"),
        ("incep_5x5", "b4 c48 o64 i35x35 k5 p2"),
        ("unet_T2s2", "b2 c256 o128 i28x28 k2 s2 t"),
        ("dcgan_T4s2", "b4 c128 o64 i32x32 k4 s2 p1 t"),
        ("conv1d_k3_T", "b4 c128 o128 i1024 k3 p1"),
        ("conv1d_k41s4_g", "b4 c64 o256 i4096 k41 s4 p20 g16"),
        ("conv1d_k7_d3", "b4 c64 o64 i4096 k7 p9 d3"),
        ("wav_k10s5", "b2 c1 o512 i16000 k10 s5"),
        ("c3d_3x3x3", "b1 c64 o64 i8x28x28 k3 p1"),
        ("c3d_stem", "b1 c3 o64 i8x56x56 k3 p1"),
        ("rnext_g32", "b4 c128 o128 i56x56 k3 p1 g32"),
        ("tiny_8c", "b1 c8 o8 i8x8 k3 p1"),
        ("tiny_lenet", "b1 c6 o16 i14x14 k5"),
        ("bigbatch_cifar", "b128 c16 o16 i32x32 k3 p1"),
        ("vgg_3x3_64_112", "b2 c64 o64 i112x112 k3 p1"),
    )
)

_BY_NAME = {shape.name: shape for shape in CONVOLUTIONS}

_HALVES = (
    *("rn50_3x3_64", "rn50_1x1_64_256", "rn50_3x3s2_128", "mbv2_dw3x3_s1"),
    *("dcgan_T4s2", "conv1d_k3_T", "rnext_g32", "tiny_8c"),
)
HALVES: tuple[ConvolutionShape, ...] = tuple(replace(_BY_NAME[name], batch=1) for name in _HALVES)
"""Shapes for 16 bits, with one image: PyTorch takes seconds for some full batches."""

_THREADED = (
    *("rn50_stem7s2", "rn50_3x3_64", "rn50_3x3_256", "rn50_1x1_64_256", "rn50_1x1_1024_256"),
    *("rn50_3x3s2_128", "mbv2_dw3x3_s1", "dlab_dil2_256", "dcgan_T4s2", "conv1d_k3_T"),
    *("c3d_3x3x3", "rnext_g32"),
)
THREADED: tuple[ConvolutionShape, ...] = tuple(_BY_NAME[name] for name in _THREADED)
"""Shapes for two threads, one of each kind."""

_FILTERS = (
    *("dcgan_T4s2", "unet_T2s2", "rn50_3x3_64", "rn50_3x3_256"),
    *("rn50_3x3s2_128", "dlab_dil2_256"),
)
FILTERS: tuple[ConvolutionShape, ...] = tuple(_BY_NAME[name] for name in _FILTERS)
"""Shapes of filter gradients with channels last."""

FOLDS: tuple[FoldShape, ...] = tuple(
    FoldShape(
        name=name,
        batch=numbers[0],
        channels=numbers[1],
        size=(numbers[2], numbers[2]),
        kernel=numbers[3],
        stride=numbers[4],
        padding=numbers[5],
        dilation=numbers[6],
    )
    for name, numbers in (
        ("srcnn_k5s1", (2, 32, 64, 5, 1, 2, 1)),
        ("vit_patch16", (8, 3, 224, 16, 16, 0, 1)),
        ("k3s1p1_big", (2, 64, 112, 3, 1, 1, 1)),
        ("k3s2p1", (4, 64, 112, 3, 2, 1, 1)),
        ("k2s2", (4, 128, 56, 2, 2, 0, 1)),
        ("k3d2", (2, 64, 56, 3, 1, 2, 2)),
        ("swin_ovl_k7s4", (4, 3, 224, 7, 4, 3, 1)),
        ("tiny", (1, 8, 16, 3, 1, 1, 1)),
    )
)
