"""Expected values of a case: the calls of the profile `reference`, and the cache of results."""

from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final

import numpy as np

from opserve_kernels.cases.arrays import Recorded, nothing_recorded, view_of
from opserve_kernels.cases.cache import LIMIT_BYTES, Cache
from opserve_kernels.cases.case import Case
from opserve_kernels.cases.fill import Array, unwritten
from opserve_kernels.cases.projection import Projection
from opserve_kernels.cases.reference_calls import (
    Doubles,
    ReferenceCall,
    reference_calls,
    reference_key,
    widened,
)
from opserve_kernels.verdict.judge_case import NO_STANDARDS, Arrays, Expected, Standards

REFERENCE_RULES: Final = "warn"
"""Documented rules of sessions on the reference: calls that break page rules are computed, too.
The target's sessions decide whether such calls are rejected."""
NO_REFERENCE: Final = (
    "The service has no device of the profile reference, which computes expected values: add "
    '"reference" to its setting OPSERVE_DEVICES and start it again'
)
"""The error where a service cannot give verdicts."""
_VALUES, _MAGNITUDES = "values.", "magnitudes."


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedFolder:
    """The folder of expected values.

    Attributes:
        folder: The folder on disk.
        limit_bytes: Bytes of all files.
    """

    folder: Path
    limit_bytes: int = LIMIT_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Expected values of a call, as computed by the reference.

    Attributes:
        key: Their key in the cache.
        projection: The projection that they are; None for outputs themselves.
        arrays: The arrays to store.
    """

    key: str
    projection: Projection | None
    arrays: Arrays


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A case to judge.

    Attributes:
        case: The case.
        seed: Seed of its inputs.
        contract: Revision of the operator's contract.
        standards: Standards to report besides.
        expected_folder: The folder of expected values.
        answers: All expected values, if they were not stored.
        recorded: Function that returns recorded inputs; another process can call it.
    """

    case: Case
    seed: int
    contract: str
    standards: Standards = NO_STANDARDS
    expected_folder: ExpectedFolder
    answers: Sequence[Answer] = ()
    recorded: Recorded = nothing_recorded


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedCall:
    """A call for the reference.

    Attributes:
        kept_as: Prefix of the stored result: "values." or "magnitudes.".
        case: The call, on the profile `reference`.
        outputs: The outputs to keep.
        storages: Flat memory of its tensors before the call, by name.
    """

    kept_as: str
    case: Case
    outputs: tuple[str, ...]
    storages: Arrays


@dataclass(frozen=True, slots=True, kw_only=True)
class CallGroup:
    """Calls whose results are stored together.

    Attributes:
        key: Key of the expected values in the cache.
        projection: The projection that they are; None for outputs themselves.
        calls: Calls of the profile `reference`.
    """

    key: str
    projection: Projection | None
    calls: tuple[PreparedCall, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceNeeded:
    """The judgement needs results of the reference first.

    Attributes:
        calls: All calls that give the expected values of a case.
    """

    calls: tuple[CallGroup, ...]


def expected_values(
    task: Task, inputs: Callable[[], Arrays], *, sized: Collection[str]
) -> dict[str, Expected] | ReferenceNeeded:
    """Expected values by output: those of the task, which are stored now, or stored ones.

    Args:
        task: The case.
        inputs: Function that returns the case's inputs, on a cache miss.
        sized: Outputs whose magnitudes are needed.
    """
    cache = _cache(task.expected_folder)
    found: dict[str, Expected] = {}
    for answer in task.answers:
        cache.put(answer.key, answer.arrays)
        found |= expected_in(answer.arrays, answer.projection)
    if found:
        return found
    calls = reference_calls(task.case, inputs(), seed=task.seed, sized=sized)
    keys = [reference_key(call, contract=task.contract) for call in calls]
    for call, key in zip(calls, keys, strict=True):
        kept = cache.get(key)
        if kept is None:
            return ReferenceNeeded(
                calls=tuple(
                    CallGroup(key=key, projection=call.projection, calls=(*prepared_calls(call),))
                    for call, key in zip(calls, keys, strict=True)
                )
            )
        found |= expected_in(kept, call.projection)
    return found


async def answers_to(
    calls: Sequence[CallGroup], ask: Callable[[PreparedCall], Awaitable[Arrays]]
) -> Sequence[Answer]:
    """Runs all calls on the reference, one after the other.

    Args:
        calls: The calls.
        ask: Function that makes a call on a device of `reference` and returns the flat memory of
            the outputs, by name.
    """
    answers: list[Answer] = []
    for call in calls:
        arrays: dict[str, Array] = {}
        for prepared in call.calls:
            arrays |= kept_arrays(prepared, await ask(prepared))
        answers.append(Answer(key=call.key, projection=call.projection, arrays=arrays))
    return answers


def prepared_calls(call: ReferenceCall) -> Iterator[PreparedCall]:
    """The call for the values, and the one for the magnitudes if they are needed."""
    operands = {name: widened(operand) for name, operand in call.operands.items()}
    yield _prepared(_VALUES, call.case, call.outputs, operands)
    if call.sized:
        magnitudes = {name: np.abs(operand) for name, operand in operands.items()}
        yield _prepared(_MAGNITUDES, call.sized, call.outputs, magnitudes)


def kept_arrays(prepared: PreparedCall, storages: Arrays) -> dict[str, Array]:
    """The arrays to store from the flat memory of the outputs, by name."""
    case = prepared.case
    return {
        prepared.kept_as + name: view_of(storages[name], case.tensors[name])
        for name in case.written
        if name in prepared.outputs
    }


def expected_in(arrays: Arrays, projection: Projection | None) -> dict[str, Expected]:
    """The expected values of a call's outputs in stored arrays."""
    values = {
        name.removeprefix(_VALUES): array
        for name, array in arrays.items()
        if name.startswith(_VALUES)
    }
    return {
        name: Expected(
            values=array, magnitudes=arrays.get(_MAGNITUDES + name), projection=projection
        )
        for name, array in values.items()
    }


def arrays_in(expected: Mapping[str, Expected]) -> dict[str, Array]:
    """Expected values as arrays of a file: values.NAME, and magnitudes.NAME if there are any."""
    arrays: dict[str, Array] = {_VALUES + name: one.values for name, one in expected.items()}
    for name, one in expected.items():
        if one.magnitudes is not None:
            arrays[_MAGNITUDES + name] = one.magnitudes
    return arrays


def _prepared(
    kept_as: str, case: Case, outputs: tuple[str, ...], operands: Mapping[str, Doubles]
) -> PreparedCall:
    unread = {
        name: unwritten(tensor.storage_elements, tensor.dtype)
        for name, tensor in case.outputs.items()
    }
    flat = {name: operand.reshape(-1) for name, operand in operands.items()}
    return PreparedCall(kept_as=kept_as, case=case, outputs=outputs, storages=flat | unread)


@lru_cache(maxsize=1)
def _cache(expected_folder: ExpectedFolder) -> Cache:
    return Cache(expected_folder.folder, expected_folder.limit_bytes)
