"""The suites smoke, standard and exhaustive, made from the operators' contracts."""

from collections.abc import Callable, Iterator, Mapping
from itertools import chain

from opserve_kernels.cases.calls import Setting
from opserve_kernels.cases.case import DRAWN_KINDS, Case, Kind
from opserve_kernels.cases.forms.drawn import drawn_forms
from opserve_kernels.cases.forms.form import Form
from opserve_kernels.cases.refusals.rows import refusals_of
from opserve_kernels.cases.registry import all_cases, cases_of
from opserve_kernels.cases.suite import Suite
from opserve_kernels.cases.sums import multiply_adds
from opserve_kernels.cases.supported import follows_the_page, supported
from opserve_kernels.operators import OPERATOR_NAMES
from opserve_kernels.tensor import DataType

STANDARD_LIMIT, EXHAUSTIVE_LIMIT = 150_000_000, 20_000_000_000
"""Multiply-adds of a case, at most."""
_SMOKE_LIMIT = 5_000_000
_ELEMENTS_LIMIT = 1 << 21  # of a tensor, except in `exhaustive`: drawing and judging cost time too
_NETWORKS_LIMIT = 1_500_000_000  # multiply-adds of all layers of networks in `standard`
_SMOKE_STEP, _ELSEWHERE_STEP = 2, 4  # one form of this many
_SMOKE_REAL_STEP = 5  # the same in real numbers: shares no factor with the 6 kinds of _REAL
_DRAWN, _DRAWN_EXHAUSTIVE = 30, 100
_REAL = (Kind.NORMAL, Kind.UNIFORM, Kind.OFFSET, Kind.TINY, Kind.OUTLIERS, Kind.SPECIAL)
_EVERY_KIND_FORMS = ("plain", "2-D plain", "all of them", "2-D all of them")


def smoke(seed: int = 0) -> Suite:
    """Some forms and rows of each operator, in integers and in real numbers: seconds of work."""
    found = chain.from_iterable(map(_smoke_cases, OPERATOR_NAMES))
    return _suite("smoke", seed, found, _SMOKE_LIMIT)


def standard(seed: int = 0) -> Suite:
    """Every form on each operator's first profile, every row of every error table."""
    cases = (_standard_cases(operator, seed) for operator in OPERATOR_NAMES)
    found = chain(*cases, _network_cases())
    return _suite("standard", seed, found, STANDARD_LIMIT)


def exhaustive(seed: int = 0) -> Suite:
    """Every form on every profile and in every dtype, and layers of any size."""
    cases = (_exhaustive_cases(operator, seed) for operator in OPERATOR_NAMES)
    found = chain(*cases, _all_layers())
    return _suite("exhaustive", seed, found, EXHAUSTIVE_LIMIT)


SUITES: Mapping[str, Callable[[int], Suite]] = {
    "smoke": smoke,
    "standard": standard,
    "exhaustive": exhaustive,
}


def _suite(name: str, seed: int, cases: Iterator[Case], limit: int) -> Suite:
    """The cases within a limit, without repetitions."""
    by_id: dict[str, Case] = {}
    for case in cases:
        if multiply_adds(case) <= limit and (name == "exhaustive" or _is_small(case)):
            by_id.setdefault(case.id, case)
    return Suite(name=name, seed=seed, cases=tuple(by_id.values()))


def _is_small(case: Case) -> bool:
    """Whether a case must be rejected, or has no large tensor."""
    sizes = (tensor.storage_elements for tensor in case.tensors.values())
    return case.is_refused or max(sizes) <= _ELEMENTS_LIMIT


def _smoke_cases(operator: str) -> Iterator[Case]:
    profile = _first(operator)
    for place, form in enumerate(cases_of(operator).forms()):
        if place % _SMOKE_STEP == 0 and not form.is_limit:
            yield from _tried(operator, form, profile, place, Kind.INTEGER)
        if place % _SMOKE_REAL_STEP == 0 and not form.is_limit:
            yield from _real(operator, form, profile, place)
    yield from refusals_of(operator)[::_SMOKE_STEP]


def _standard_cases(operator: str, seed: int) -> Iterator[Case]:
    first, *others = cases_of(operator).support
    forms = [*cases_of(operator).forms(), *drawn_forms(operator, _DRAWN, seed)]
    for place, form in enumerate(forms):
        yield from _tried(operator, form, first, place, Kind.INTEGER)
        if not form.is_limit:
            yield from _real(operator, form, first, place)
        for shift, profile in enumerate(others):
            if place % _ELSEWHERE_STEP == shift % _ELSEWHERE_STEP and not form.is_limit:
                kind = Kind.INTEGER if place % 2 else Kind.NORMAL
                yield from _tried(operator, form, profile, place, kind)
    yield from _every_kind(operator, forms)
    yield from refusals_of(operator)
    for place, form in enumerate(cases_of(operator).rarer_forms()):
        for profile in cases_of(operator).support:
            yield from _tried(operator, form, profile, place, Kind.NORMAL)


def _every_kind(operator: str, forms: list[Form]) -> Iterator[Case]:
    """The plain call, and the call with everything at once, in every dtype, profile and fill."""
    chosen = [form for form in forms if form.name in _EVERY_KIND_FORMS]
    for form in chosen:
        for profile, support in cases_of(operator).support.items():
            for dtype in support.dtypes:
                for kind in DRAWN_KINDS:
                    yield from _in_dtype(form, profile, dtype, kind)


def _exhaustive_cases(operator: str, seed: int) -> Iterator[Case]:
    forms = [*cases_of(operator).forms(), *drawn_forms(operator, _DRAWN_EXHAUSTIVE, seed)]
    for form in forms:
        for profile, support in cases_of(operator).support.items():
            for dtype in support.dtypes:
                for kind in (Kind.INTEGER, Kind.NORMAL):
                    yield from _in_dtype(form, profile, dtype, kind)
    yield from _standard_cases(operator, seed)


def _real(operator: str, form: Form, profile: str, place: int) -> Iterator[Case]:
    """The form in real numbers, in the dtype after that of its integers."""
    yield from _tried(operator, form, profile, place + 1, _REAL[place % len(_REAL)])


def _tried(operator: str, form: Form, profile: str, place: int, kind: Kind) -> Iterator[Case]:
    """The form in the profile's dtypes by turns: the first supported one from that turn on."""
    dtypes = cases_of(operator).support[profile].dtypes
    for turn in range(len(dtypes)):
        found = list(_in_dtype(form, profile, dtypes[(place + turn) % len(dtypes)], kind))
        if found:
            yield from found
            return


def _in_dtype(form: Form, profile: str, dtype: DataType, kind: Kind) -> Iterator[Case]:
    """The case, if the profile supports it."""
    case = supported(form.in_dtype(dtype).case(Setting(profile=profile, kind=kind)))
    if case is not None and follows_the_page(case):
        yield case


def _network_cases() -> Iterator[Case]:
    """Layers of networks, the cheapest first, as many as the limit allows."""
    spent = 0
    for case in sorted(_layers(Kind.INTEGER), key=multiply_adds):
        spent += multiply_adds(case)
        if spent <= _NETWORKS_LIMIT:
            yield case


def _all_layers() -> Iterator[Case]:
    yield from _layers(Kind.INTEGER)
    yield from _layers(Kind.NORMAL)


def _layers(kind: Kind) -> Iterator[Case]:
    """Layers, in the dtypes that such networks are trained in by turns."""
    for operator, cases in all_cases().items():
        profile = _first(operator)
        dtypes = cases.support[profile].dtypes
        for place, (network, call) in enumerate(cases.layers()):
            form = Form(name=network, call=call).in_dtype(dtypes[place % len(dtypes)])
            setting = Setting(profile=profile, kind=kind, tags=("network",), source=network)
            yield form.case(setting)


def _first(operator: str) -> str:
    return next(iter(cases_of(operator).support))
