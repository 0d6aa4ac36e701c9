"""Calls of the conformance suites as samples."""

from collections.abc import Collection, Mapping
from dataclasses import fields

from kernels.samples.sample import ErrorSample, Sample, TensorSample
from opserve_kernels.cases.case import Case, TensorCase
from opserve_kernels.cases.refusals.changes import Breach, Row, changed
from opserve_kernels.status import Status
from opserve_kernels.tensor import Tensor


def broken_calls(
    breaches: Mapping[Row, Breach], schema: type, *, late: Collection[str] = ()
) -> tuple[ErrorSample, ...]:
    """The refusals of the suites as samples; the codes are those of aclnn's return tables.

    Args:
        breaches: A breach of each rule, by parameter and words.
        schema: Of the operator.
        late: The rules that are refused with 361001, by their words.
    """
    return tuple(
        ErrorSample(
            rule=rule,
            sample=sample_of(changed(breach.case, breach.changes), schema, f"{parameter}: {rule}"),
            status=_status(rule, late),
            parameter=parameter,
        )
        for (parameter, rule), breach in breaches.items()
    )


def sample_of(case: Case, schema: type, name: str) -> Sample:
    """A case as a sample; arguments that it has not are null pointers."""
    tensors: dict[str, TensorSample | None] = {}
    scalars = dict(case.arguments)
    for field in fields(schema):
        if field.type == (Tensor | None):
            tensors[field.name] = _tensor(case.tensors.get(field.name))
    missing = {field.name for field in fields(schema)} - set(tensors)
    return Sample(
        name=name,
        operator=case.operator,
        tensors=tensors,
        scalars={**dict.fromkeys(sorted(missing)), **scalars},
        profile=case.profile,
    )


def _status(rule: str, late: Collection[str]) -> Status:
    if rule.startswith("missing"):
        return Status.ACLNN_ERR_PARAM_NULLPTR
    return Status.ACLNN_ERR_RUNTIME_ERROR if rule in late else Status.ACLNN_ERR_PARAM_INVALID


def _tensor(given: TensorCase | None) -> TensorSample | None:
    if given is None:
        return None
    return TensorSample(
        shape=given.shape, dtype=given.dtype, format=given.format, strides=given.strides
    )
