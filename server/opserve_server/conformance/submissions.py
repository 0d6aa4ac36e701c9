"""Outputs that a tenant has sent, and what was said of them: neither need travel again."""

from collections import OrderedDict
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar
from weakref import WeakKeyDictionary

from opserve.digests import digest_of
from opserve_kernels.cases.case import Case
from opserve_kernels.cases.fill import Array
from opserve_kernels.conformance.expected import Task
from opserve_kernels.verdict.judge_case import Standards
from opserve_server.conformance.answers import Verified
from opserve_server.core.accounts import Account

KeyT = TypeVar("KeyT", bound=Hashable)
ValueT = TypeVar("ValueT")
VerdictKey = tuple[str, int, str, Standards, frozenset[tuple[str, str]]]
"""Case, seed, revision of the contract, standards, and the digest of each output."""
_VERDICTS_SHARE = 8
"""One byte of so many is for verdicts, so that large outputs push none of them out."""
_ENTRY_BYTES = 1024
"""Of memory beside a value's own: its key, its head and its place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """What a call gives of a case's outputs.

    Attributes:
        arrays: Those that came, by output.
        digests: Of these and of those that the caller says were sent before.
    """

    arrays: Mapping[str, Array]
    digests: Mapping[str, str]


def submission_of(
    case: Case, arrays: Mapping[str, Array], digests: Mapping[str, str]
) -> Submission:
    """Of what came, that which the case writes; where an array came, its own digest counts."""
    came = {name: array for name, array in arrays.items() if name in case.written}
    listed = {name: digest for name, digest in digests.items() if name in case.written}
    found = {name: digest_of(array) for name, array in came.items()}
    return Submission(arrays=came, digests=listed | found)


class LruCache(Generic[KeyT, ValueT]):
    """Values by key, of which each has but one; those not used for longest go.

    Args:
        limit_bytes: Of all of them.

    Attributes:
        held_bytes: Of those that are there.
    """

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes, self.held_bytes = limit_bytes, 0
        self._values = OrderedDict[KeyT, tuple[ValueT, int]]()

    def get(self, key: KeyT) -> ValueT | None:
        """The value of a key, which is the newest from now on; None where it is not kept."""
        if key not in self._values:
            return None
        self._values.move_to_end(key)
        return self._values[key][0]

    def put(self, key: KeyT, value: ValueT, size_bytes: int) -> None:
        """Keeps a value, unless it is larger than all may be."""
        size_bytes += _ENTRY_BYTES
        if size_bytes > self._limit_bytes or self.get(key) is not None:
            return
        self._values[key] = value, size_bytes
        self.held_bytes += size_bytes
        while self.held_bytes > self._limit_bytes:
            self.drop()

    def drop(self) -> None:
        """Forgets the value that was not used for longest; there is one."""
        _, (_, dropped_bytes) = self._values.popitem(last=False)
        self.held_bytes -= dropped_bytes


class TenantSubmissions:
    """What is kept of one tenant.

    Args:
        limit_bytes: Of all of it.
    """

    def __init__(self, limit_bytes: int) -> None:
        verdicts_bytes = limit_bytes // _VERDICTS_SHARE
        self._verdicts = LruCache[VerdictKey, Verified](verdicts_bytes)
        self._outputs = LruCache[str, Array](limit_bytes - verdicts_bytes)

    @property
    def held_bytes(self) -> int:
        """Of all of it."""
        return self._outputs.held_bytes + self._verdicts.held_bytes

    def drop(self) -> None:
        """Forgets what was not used for longest, outputs or, if they have their share, verdicts."""
        full = self._verdicts.held_bytes * _VERDICTS_SHARE > self.held_bytes
        (self._verdicts if full else self._outputs).drop()

    def verdict(self, task: Task, given: Submission) -> Verified | None:
        """What was said of equal outputs of the case, if that is known."""
        return self._verdicts.get(_key(task, given))

    def outputs(self, given: Submission) -> Mapping[str, Array]:
        """The arrays that are given or kept, by output."""
        kept = {name: self._outputs.get(digest) for name, digest in given.digests.items()}
        there = {name: array for name, array in kept.items() if array is not None}
        return {**there, **given.arrays}

    def keep(self, task: Task, given: Submission, verified: Verified) -> None:
        """Remembers what came, and what was said of it."""
        for name, array in given.arrays.items():
            self._outputs.put(given.digests[name], array, array.nbytes)
        self._verdicts.put(_key(task, given), verified, len(verified.verdict))


class SubmissionCaches:
    """What is kept of all tenants; with its account that of a tenant goes.

    Args:
        limit_bytes: Of all of it.
        of_one_bytes: Of each tenant's.
    """

    def __init__(self, limit_bytes: int, *, tenant_limit_bytes: int) -> None:
        self._limit_bytes, self._tenant_limit_bytes = limit_bytes, tenant_limit_bytes
        self._tenants = WeakKeyDictionary[Account, TenantSubmissions]()

    def of(self, account: Account) -> TenantSubmissions:
        """What is kept of a tenant."""
        return self._tenants.setdefault(account, TenantSubmissions(self._tenant_limit_bytes))

    def make_room(self) -> None:
        """Drops what is too much, of whoever has most: nobody loses who has less than a share."""
        tenants = list(self._tenants.values())
        while sum(sent.held_bytes for sent in tenants) > self._limit_bytes:
            max(tenants, key=lambda sent: sent.held_bytes).drop()


def _key(task: Task, given: Submission) -> VerdictKey:
    digests = frozenset(given.digests.items())
    return task.case.id, task.seed, task.contract, task.standards, digests
