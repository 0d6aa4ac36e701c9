"""Calls to plan: ordinary ones drawn at random, and hostile ones at the ends of every argument."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice, product
from math import prod
from random import Random
from typing import Any

from opserve_kernels.cases.block_calls import BlockCall
from opserve_kernels.cases.calls import Layout, Row, Setting
from opserve_kernels.cases.case import Case
from opserve_kernels.cases.forms.form import Call, Form
from opserve_kernels.cases.schema_form import arguments_of
from opserve_kernels.cases.supported import follows_the_page, supported
from opserve_kernels.formats import BLOCK
from opserve_kernels.operator import Accuracy, Plan, PlanOptions
from opserve_kernels.operators.conv2d_backprop_filter.cases.calls import FilterCall
from opserve_kernels.operators.conv2d_backprop_input.cases.calls import InputCall
from opserve_kernels.operators.conv_depthwise2d.cases.calls import DepthwiseCall
from opserve_kernels.operators.conv_tbc.cases.calls import TbcLayerCall
from opserve_kernels.operators.conv_tbc_backward.cases.calls import TbcCall
from opserve_kernels.operators.convolution.cases.calls import LayerCall
from opserve_kernels.operators.convolution_backward.cases.calls import ConvolutionCall
from opserve_kernels.operators.deconv_grad_filter.cases.calls import DeconvolutionCall
from opserve_kernels.operators.im2col.cases.calls import UnfoldCall
from opserve_kernels.operators.im2col_backward.cases.calls import FoldCall
from opserve_kernels.profiles import PROFILES
from opserve_kernels.registry import OPERATORS
from opserve_server.settings import THREADS_LIMIT

DEMANDING = PlanOptions(accuracy=Accuracy.FAST, threads=THREADS_LIMIT, workspace_limit=0)
"""Options that take the most planning: every algorithm is tried, the first one in shares."""
BATCH = replace(DEMANDING, threads=1, batch_consistent=True)
"""The same at the deterministic level BATCH, whose algorithms depend on no size of the batch."""
VAST = (
    *(64, 4099, 65535, 65537, 2**20, 2**20 + 7, 2**31 - 19, 2**31 - 2, 2**31 - 1),
    *(2**36, 2**39 - 7, 2**40, 2**61 - 1, 2**62 - 57, 2**63 - 25),
)
"""Sizes at which walks take long: powers of two, primes beside them, and bounds of the vendor's."""
_STEPS = ("stride", "dilation", "padding", "kernel", "size")
_COUNTS = ("batch", "inner", "outer", "groups")


@dataclass(frozen=True, slots=True)
class PlannedCall:
    """A call and the options of its plan."""

    case: Case
    options: PlanOptions

    def plan(self) -> Plan:
        """Phase one, which may refuse it."""
        operator = OPERATORS[self.case.operator]
        arguments = arguments_of(self.case, operator.schema)
        operator.infer_outputs(arguments)
        plan: Plan = operator.plan(arguments, PROFILES[self.case.profile], self.options)
        return plan


def random_calls(seed: int, count: int) -> Iterator[PlannedCall]:
    """So many calls that are supported, of every operator, on every profile, with any options."""
    random = Random(seed)  # noqa: S311  # no secret
    found = 0
    while found < count:
        operator = random.choice((*OPERATORS, *("convolution_backward",) * 4))
        geometry: dict[str, Any] = {
            "axes": random.choice((1, 2, 2, 2, 3)),
            "batch": _magnitude(random, 5),
            "inner": random.choice((1, 1, 16, 64, _magnitude(random, 8))),
            "outer": random.choice((1, 16, 64, _magnitude(random, 8))),
            "groups": random.choice((1, 1, 1, 2, _magnitude(random, 8))),
        }
        rows = {
            "kernel": (1, 3, 3, 5, _magnitude(random, 3)),
            "stride": (1, 1, 2, _magnitude(random, 6)),
            "dilation": (1, 1, 2, _magnitude(random, 3)),
            "padding": (0, 0, 1, 2, _magnitude(random, 4)),
            "size": (_magnitude(random, 12), _magnitude(random, 6)),
        }
        for name, row in rows.items():
            geometry[name] = tuple(random.choice(row) for _ in range(3))
        geometry["transposed"] = random.random() < 1 / 3
        call = _call(operator, Geometry(**geometry))
        profile = random.choice(tuple(OPERATORS[operator].support))
        dtype = random.choice(OPERATORS[operator].support[profile].dtypes)
        case = _case(Form(name="", call=call).in_dtype(dtype), profile)
        if case is None:
            continue
        found += 1
        options = PlanOptions(
            accuracy=Accuracy.DIRECT if random.random() < 1 / 3 else Accuracy.FAST,
            threads=random.choice((1, 1, 2, 3, 6, THREADS_LIMIT)),
            workspace_limit=random.choice((None, None, 0, 1 << 16, 1 << 22)),
            batch_consistent=random.random() < 1 / 4,
        )
        yield PlannedCall(case, options)


def hostile_calls(step: int) -> Iterator[PlannedCall]:
    """Every argument at every size of VAST, alone and beside others: each `step`-th such call.

    Each comes at the deterministic level BATCH too.
    """
    plain = Geometry()
    geometries = (plain, replace(plain, axes=1), replace(plain, transposed=True))
    places = (
        (operator, profile) for operator in OPERATORS for profile in OPERATORS[operator].support
    )
    hostile = [one for geometry in geometries for one in _hostile(geometry)]
    for (operator, profile), geometry in islice(product(places, hostile), 0, None, step):
        form = Form(name="", call=_call(operator, geometry))
        form = form.in_dtype(OPERATORS[operator].support[profile].dtypes[-1])
        case = _case(form, profile, repeats=geometry.repeats)
        if case is not None:
            yield from (PlannedCall(case, options) for options in (DEMANDING, BATCH))


def largest_call(operator: str, elements: int, more: int) -> PlannedCall:
    """A call whose largest tensor has so many elements, and with `more` entries some more."""
    lanes = BLOCK if operator.startswith("conv2d") else 1
    batch, ones = elements // lanes + more, (1, 1, 1)
    geometry = Geometry(batch=batch, inner=1, outer=1, size=ones, kernel=ones)
    form = Form(name="", call=_call(operator, geometry))
    case = _case(form, "reference", repeats=True)
    assert case is not None
    return PlannedCall(case, PlanOptions(accuracy=Accuracy.FAST))


@dataclass(frozen=True, slots=True, kw_only=True)
class Geometry:
    """Numbers that a call of any operator is made of.

    Attributes:
        axes: Spatial dimensions, where the operator leaves a choice.
        batch: Entries.
        inner: Channels of a group, on one side.
        outer: The same on the other side.
        groups: Groups of channels.
        size: Of the image, beyond what the kernel spans.
        kernel: Taps.
        stride: Steps.
        dilation: Distance of taps.
        padding: On both sides.
        transposed: Of convolution_backward.
        repeats: Whether all strides of all tensors are 0, so that buffers are small.
    """

    axes: int = 2
    batch: int = 2
    inner: int = 3
    outer: int = 4
    groups: int = 1
    size: Row = (5, 6, 7)
    kernel: Row = (3, 3, 3)
    stride: Row = (1, 1, 1)
    dilation: Row = (1, 1, 1)
    padding: Row = (0, 0, 0)
    transposed: bool = False
    repeats: bool = True


def _hostile(geometry: Geometry) -> Iterator[Geometry]:
    for value in VAST:
        for name in _COUNTS:
            change: dict[str, Any] = {name: value}
            yield replace(geometry, **change)
        for name in _STEPS:
            outer: dict[str, Any] = {name: (value, 1, 1)}
            inner: dict[str, Any] = {name: (1, value, 1)}
            first = replace(geometry, **outer)
            yield first
            yield replace(geometry, repeats=False, **inner)
            yield replace(first, inner=1, outer=1, groups=64)
            yield replace(first, stride=(*first.stride[:1], 8, 7))
    for value in VAST[2:9]:
        yield replace(geometry, size=(value, 7, 7), stride=(7, 9, 1), kernel=(9, 5, 1))
        yield replace(geometry, size=(value, 7, 7), dilation=(value, 2, 1), kernel=(2, 2, 1))
        yield replace(geometry, size=(value, 7, 7), padding=(value, 2, 1), stride=(63, 1, 1))


def _magnitude(random: Random, bits: int) -> int:
    """A number of any length up to so many bits."""
    return int(2 ** random.uniform(0, bits))


_BLOCK_CALLS: Mapping[str, Callable[[BlockCall], Call]] = {
    "conv2d_backprop_input": InputCall,
    "conv2d_backprop_filter": FilterCall,
}
_ANY_RANK: Mapping[str, Callable[..., Call]] = {
    "convolution": LayerCall,
    "convolution_backward": ConvolutionCall,
}


def _call(operator: str, geometry: Geometry) -> Call:
    axes = geometry.axes if operator in _ANY_RANK else 2
    kernel, stride, dilation, padding = (
        row[:axes]
        for row in (geometry.kernel, geometry.stride, geometry.dilation, geometry.padding)
    )
    size = tuple(
        more + max(0, step * (taps - 1) - 2 * sides)
        for more, step, taps, sides in zip(geometry.size, dilation, kernel, padding, strict=False)
    )
    inner, outer, groups = geometry.inner, geometry.outer, geometry.groups
    image = (geometry.batch, inner, *size)
    steps: dict[str, Any] = {"stride": stride, "padding": padding, "dilation": dilation}
    of_images: dict[str, Callable[[], Call]] = {
        "im2col_backward": lambda: FoldCall(out=image, kernel=kernel, **steps),
        "im2col": lambda: UnfoldCall(image=image, kernel=kernel, **steps),
        "conv_depthwise2d": lambda: DepthwiseCall(image=image, kernel=kernel, **steps),
    }
    if operator in of_images:
        return of_images[operator]()
    if operator == "conv_tbc_backward":
        times = (size[0], geometry.batch, inner)
        return TbcCall(image=times, weight=(kernel[0], inner, outer), pad=padding[0])
    if operator == "conv_tbc":
        times = (size[0], geometry.batch, inner)
        return TbcLayerCall(image=times, weight=(kernel[0], inner, outer), pad=padding[0])
    if operator == "deconv_grad_filter":
        return DeconvolutionCall(
            x=(geometry.batch, *geometry.size[:2], groups * inner),
            dy=(geometry.batch, *size, groups * outer),
            kernel=kernel,
            group=groups,
            **steps,
        )
    if operator in _BLOCK_CALLS:
        return _BLOCK_CALLS[operator](_blocks(geometry, size))
    assert operator in _ANY_RANK, "this function makes a call of each operator"
    return _ANY_RANK[operator](**_convolution(geometry, size))


def _blocks(geometry: Geometry, size: Row) -> BlockCall:
    inner, outer, groups = geometry.inner, geometry.outer, geometry.groups
    above, before, *_ = geometry.padding
    return BlockCall(
        image=(geometry.batch, groups * inner, *size),
        weight=(groups * outer, inner, *geometry.kernel[:2]),
        strides=geometry.stride[:2],
        padding=(above, above, before, before),
        dilations=geometry.dilation[:2],
        groups=groups,
    )


def _convolution(geometry: Geometry, size: Row) -> dict[str, Any]:
    """Members of a call; without padding where it is transposed, which could leave no output."""
    axes, inner, outer = geometry.axes, geometry.inner, geometry.outer
    padding = geometry.padding[:axes]
    if geometry.transposed:
        inner, outer, padding = outer, inner, (0,) * axes
    channels = geometry.groups * (outer if geometry.transposed else inner)
    return {
        "input": (geometry.batch, channels, *size),
        "weight": (geometry.groups * outer, inner, *geometry.kernel[:axes]),
        "stride": geometry.stride[:axes],
        "padding": padding,
        "dilation": geometry.dilation[:axes],
        "groups": geometry.groups,
        "transposed": geometry.transposed,
    }


def _case(form: Form, profile: str, *, repeats: bool = False) -> Case | None:
    """The call, if its profile supports it and its kernel has a place."""
    case = form.case(Setting(profile=profile))
    if any(prod(tensor.shape) < 1 for tensor in case.tensors.values()):
        return None
    if repeats:
        layouts: Mapping[str, Layout] = {
            name: Layout(strides=(0,) * len(tensor.shape)) for name, tensor in case.tensors.items()
        }
        case = replace(form, layouts=layouts).case(Setting(profile=profile))
    return supported(case) if follows_the_page(case) else None
