"""Changes of a sample whose arguments are nested: para_dict, and group_dict in it."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from kernels.samples.sample import ErrorSample, Sample
from opserve_kernels.status import TbeStatus

Changes = Mapping[str, Any]


def changed(sample: Sample, name: str, changes: Changes) -> Sample:
    """The same call with other arguments.

    Args:
        sample: The call.
        name: Of the new sample.
        changes: By name, with dots: "para_dict.strides". A mapping changes a tensor.
    """
    for path, value in changes.items():
        field, *inner = path.split(".")
        if isinstance(value, Mapping):
            tensor: Any = sample.tensors[field]
            sample = sample.but(name, **{field: replace(tensor, **value)})
        elif inner:
            sample = sample.but(name, **{field: _within(sample.scalars[field], inner, value)})
        else:
            sample = sample.but(name, **{field: value})
    return replace(sample, name=name)


def refused(
    status: TbeStatus, parameter: str, rule: str, sample: Sample, changes: Changes
) -> ErrorSample:
    """A call that breaks one rule.

    Args:
        status: The code.
        parameter: The parameter that the error names.
        rule: As the error table words it.
        sample: A call that breaks none.
        changes: What breaks it.
    """
    return ErrorSample(
        rule=rule,
        sample=changed(sample, f"{status.name} {parameter}: {rule}", changes),
        status=status,
        parameter=parameter,
    )


def _within(value: Any, names: list[str], change: Any) -> Any:
    name, *inner = names
    return replace(
        value, **{name: _within(getattr(value, name), inner, change) if inner else change}
    )
