"""Layers of networks in use, with the shapes of their papers and a batch of one entry."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from opserve_kernels.cases.calls import Row
from opserve_kernels.cases.forms.convolutions import ConvolutionShape

Layer = tuple[int, Row, int, int, int, int]
"""Input channels, spatial size, output channels, and kernel, stride and padding of each axis."""

_PLAIN: Mapping[str, tuple[Layer, ...]] = {
    "ResNet-50": (
        (3, (224, 224), 64, 7, 2, 3),
        (64, (56, 56), 64, 1, 1, 0),
        (64, (56, 56), 64, 3, 1, 1),
        (64, (56, 56), 256, 1, 1, 0),
        (256, (56, 56), 64, 1, 1, 0),
        (256, (56, 56), 128, 1, 1, 0),
        (128, (56, 56), 128, 3, 2, 1),
        (256, (56, 56), 512, 1, 2, 0),
        (128, (28, 28), 512, 1, 1, 0),
        (512, (28, 28), 128, 1, 1, 0),
        (128, (28, 28), 128, 3, 1, 1),
        (512, (28, 28), 256, 1, 1, 0),
        (256, (28, 28), 256, 3, 2, 1),
        (512, (28, 28), 1024, 1, 2, 0),
        (256, (14, 14), 1024, 1, 1, 0),
        (1024, (14, 14), 256, 1, 1, 0),
        (256, (14, 14), 256, 3, 1, 1),
        (1024, (14, 14), 512, 1, 1, 0),
        (512, (14, 14), 512, 3, 2, 1),
        (1024, (14, 14), 2048, 1, 2, 0),
        (512, (7, 7), 2048, 1, 1, 0),
        (2048, (7, 7), 512, 1, 1, 0),
        (512, (7, 7), 512, 3, 1, 1),
    ),
    "VGG-16": (
        (3, (224, 224), 64, 3, 1, 1),
        (64, (224, 224), 64, 3, 1, 1),
        (64, (112, 112), 128, 3, 1, 1),
        (128, (112, 112), 128, 3, 1, 1),
        (128, (56, 56), 256, 3, 1, 1),
        (256, (56, 56), 256, 3, 1, 1),
        (256, (28, 28), 512, 3, 1, 1),
        (512, (28, 28), 512, 3, 1, 1),
        (512, (14, 14), 512, 3, 1, 1),
    ),
    "MobileNet": (
        (3, (224, 224), 32, 3, 2, 1),
        (32, (112, 112), 64, 1, 1, 0),
        (64, (56, 56), 128, 1, 1, 0),
        (128, (56, 56), 128, 1, 1, 0),
        (128, (28, 28), 256, 1, 1, 0),
        (256, (28, 28), 256, 1, 1, 0),
        (256, (14, 14), 512, 1, 1, 0),
        (512, (14, 14), 512, 1, 1, 0),
        (512, (7, 7), 1024, 1, 1, 0),
        (1024, (7, 7), 1024, 1, 1, 0),
    ),
    "U-Net": (
        (1, (572, 572), 64, 3, 1, 0),
        (64, (570, 570), 64, 3, 1, 0),
        (64, (284, 284), 128, 3, 1, 0),
        (128, (140, 140), 256, 3, 1, 0),
        (256, (68, 68), 512, 3, 1, 0),
        (512, (32, 32), 1024, 3, 1, 0),
        (1024, (30, 30), 1024, 3, 1, 0),
        (1024, (56, 56), 512, 3, 1, 0),
        (512, (104, 104), 256, 3, 1, 0),
        (64, (388, 388), 2, 1, 1, 0),
    ),
    "wav2vec 2.0": (
        (1, (16000,), 512, 10, 5, 0),
        (512, (3199,), 512, 3, 2, 0),
        (512, (1599,), 512, 3, 2, 0),
        (512, (799,), 512, 3, 2, 0),
        (512, (399,), 512, 3, 2, 0),
        (512, (199,), 512, 2, 2, 0),
        (512, (99,), 512, 2, 2, 0),
    ),
    "C3D": (
        (3, (16, 112, 112), 64, 3, 1, 1),
        (64, (16, 56, 56), 128, 3, 1, 1),
        (128, (8, 28, 28), 256, 3, 1, 1),
        (256, (4, 14, 14), 512, 3, 1, 1),
        (512, (4, 14, 14), 512, 3, 1, 1),
        (512, (2, 7, 7), 512, 3, 1, 1),
    ),
}
_DEPTHWISE: Mapping[str, tuple[Layer, ...]] = {
    "MobileNet": (
        (32, (112, 112), 32, 3, 1, 1),
        (64, (112, 112), 64, 3, 2, 1),
        (128, (56, 56), 128, 3, 1, 1),
        (128, (56, 56), 128, 3, 2, 1),
        (256, (28, 28), 256, 3, 1, 1),
        (256, (28, 28), 256, 3, 2, 1),
        (512, (14, 14), 512, 3, 1, 1),
        (512, (14, 14), 512, 3, 2, 1),
        (1024, (7, 7), 1024, 3, 1, 1),
    ),
    "ConvNeXt": (
        (96, (56, 56), 96, 7, 1, 3),
        (192, (28, 28), 192, 7, 1, 3),
        (384, (14, 14), 384, 7, 1, 3),
        (768, (7, 7), 768, 7, 1, 3),
    ),
}
# Transposed: the weight has the input channels first.
_TRANSPOSED: Mapping[str, tuple[Layer, ...]] = {
    "U-Net": (
        (1024, (28, 28), 512, 2, 2, 0),
        (512, (52, 52), 256, 2, 2, 0),
        (256, (100, 100), 128, 2, 2, 0),
        (128, (196, 196), 64, 2, 2, 0),
    ),
    "DCGAN": (
        (1024, (4, 4), 512, 5, 2, 2),
        (512, (8, 8), 256, 5, 2, 2),
        (256, (16, 16), 128, 5, 2, 2),
        (128, (32, 32), 3, 5, 2, 2),
    ),
}
_OTHERS: Mapping[str, tuple[ConvolutionShape, ...]] = {
    "wav2vec 2.0": (  # positions
        ConvolutionShape(input=(1, 768, 49), weight=(768, 48, 128), padding=(64,), groups=16),
    ),
    "R(2+1)D": (
        ConvolutionShape(
            input=(1, 3, 16, 112, 112), weight=(45, 3, 1, 7, 7), stride=(1, 2, 2), padding=(0, 3, 3)
        ),
        ConvolutionShape(input=(1, 45, 16, 56, 56), weight=(64, 45, 3, 1, 1), padding=(1, 0, 0)),
    ),
    "DeepLabv3": (
        ConvolutionShape(
            input=(1, 2048, 33, 33), weight=(256, 2048, 3, 3), padding=(6, 6), dilation=(6, 6)
        ),
    ),
    "ResNeXt-50": (
        ConvolutionShape(input=(1, 128, 56, 56), weight=(128, 4, 3, 3), padding=(1, 1), groups=32),
        ConvolutionShape(input=(1, 1024, 7, 7), weight=(1024, 32, 3, 3), padding=(1, 1), groups=32),
    ),
    "ViT-B/16": (
        ConvolutionShape(input=(1, 3, 224, 224), weight=(768, 3, 16, 16), stride=(16, 16)),
    ),
}


def network_shapes() -> Iterator[tuple[str, ConvolutionShape]]:
    """Every layer, with the name of its network."""
    tables = ((_PLAIN, _call), (_DEPTHWISE, _depthwise), (_TRANSPOSED, _transposed))
    for table, call_of in tables:
        for network, layers in table.items():
            yield from ((network, call_of(layer)) for layer in layers)
    for network, calls in _OTHERS.items():
        yield from ((network, call) for call in calls)


def _call(layer: Layer) -> ConvolutionShape:
    channels, size, outputs, kernel, stride, padding = layer
    axes = len(size)
    return ConvolutionShape(
        input=(1, channels, *size),
        weight=(outputs, channels, *(kernel,) * axes),
        stride=(stride,) * axes,
        padding=(padding,) * axes,
    )


def _depthwise(layer: Layer) -> ConvolutionShape:
    call = _call(layer)
    weight = (call.weight[0], 1, *call.weight[2:])
    return replace(call, weight=weight, groups=call.input[1])


def _transposed(layer: Layer) -> ConvolutionShape:
    """Every output size is the stride times the input's."""
    channels, size, outputs, kernel, stride, padding = layer
    axes = len(size)
    return ConvolutionShape(
        input=(1, channels, *size),
        weight=(channels, outputs, *(kernel,) * axes),
        stride=(stride,) * axes,
        padding=(padding,) * axes,
        output_padding=(stride + 2 * padding - kernel,) * axes,
        transposed=True,
    )
