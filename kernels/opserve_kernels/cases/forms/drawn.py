"""Forms drawn by a seed: shapes outside the written lists."""

from collections.abc import Iterator

from opserve_kernels.cases.fill import key_of, words
from opserve_kernels.cases.forms.form import Form
from opserve_kernels.cases.registry import cases_of

_NUMBERS = 64  # numbers of a form, at most
_NAME = "drawn"


def drawn_forms(operator: str, count: int, seed: int) -> Iterator[Form]:
    """So many forms of an operator; a longer list begins with a shorter one."""
    draw = cases_of(operator).drawn
    for place in range(count):
        key = key_of(f"{operator} {place}", seed, _NAME)
        yield Form(name=_NAME, call=draw(iter(words(key, 0, _NUMBERS).tolist())))
