"""Submissions: sent outputs of tenants with their verdicts, kept to avoid repeated uploads."""

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
"""One byte of this many is for verdicts, so that large outputs do not evict them."""
_ENTRY_BYTES = 1024
"""Memory of an entry beside its value: key, header and position."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """Outputs of a case in a call.

    Attributes:
        arrays: Received arrays, by output.
        digests: Digests of these, and of those that the caller has sent before.
    """

    arrays: Mapping[str, Array]
    digests: Mapping[str, str]


def submission_of(
    case: Case, arrays: Mapping[str, Array], digests: Mapping[str, str]
) -> Submission:
    """The outputs that the case writes; for a received array its own digest counts."""
    came = {name: array for name, array in arrays.items() if name in case.written}
    listed = {name: digest for name, digest in digests.items() if name in case.written}
    found = {name: digest_of(array) for name, array in came.items()}
    return Submission(arrays=came, digests=listed | found)


class LruCache(Generic[KeyT, ValueT]):
    """Values by key; the least recently used are dropped.

    Args:
        limit_bytes: Total bytes of the values.

    Attributes:
        held_bytes: Bytes of the current values.
    """

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes, self.held_bytes = limit_bytes, 0
        self._values = OrderedDict[KeyT, tuple[ValueT, int]]()

    def get(self, key: KeyT) -> ValueT | None:
        """The value of a key, which becomes the most recent one; None where it is not kept."""
        if key not in self._values:
            return None
        self._values.move_to_end(key)
        return self._values[key][0]

    def put(self, key: KeyT, value: ValueT, size_bytes: int) -> None:
        """Adds a value, unless it exceeds the limit alone."""
        size_bytes += _ENTRY_BYTES
        if size_bytes > self._limit_bytes or self.get(key) is not None:
            return
        self._values[key] = value, size_bytes
        self.held_bytes += size_bytes
        while self.held_bytes > self._limit_bytes:
            self.drop()

    def drop(self) -> None:
        """Drops the least recently used value; there must be one."""
        _, (_, dropped_bytes) = self._values.popitem(last=False)
        self.held_bytes -= dropped_bytes


class TenantSubmissions:
    """Kept outputs and verdicts of one tenant.

    Args:
        limit_bytes: Total bytes.
    """

    def __init__(self, limit_bytes: int) -> None:
        verdicts_bytes = limit_bytes // _VERDICTS_SHARE
        self._verdicts = LruCache[VerdictKey, Verified](verdicts_bytes)
        self._outputs = LruCache[str, Array](limit_bytes - verdicts_bytes)

    @property
    def held_bytes(self) -> int:
        """Total bytes."""
        return self._outputs.held_bytes + self._verdicts.held_bytes

    def drop(self) -> None:
        """Drops the least recently used outputs, or verdicts if they exceed their share."""
        full = self._verdicts.held_bytes * _VERDICTS_SHARE > self.held_bytes
        (self._verdicts if full else self._outputs).drop()

    def verdict(self, task: Task, given: Submission) -> Verified | None:
        """The verdict on equal outputs of the case, if kept."""
        return self._verdicts.get(_key(task, given))

    def outputs(self, given: Submission) -> Mapping[str, Array]:
        """The given or kept arrays, by output."""
        kept = {name: self._outputs.get(digest) for name, digest in given.digests.items()}
        there = {name: array for name, array in kept.items() if array is not None}
        return {**there, **given.arrays}

    def keep(self, task: Task, given: Submission, verified: Verified) -> None:
        """Keeps outputs and their verdict."""
        for name, array in given.arrays.items():
            self._outputs.put(given.digests[name], array, array.nbytes)
        self._verdicts.put(_key(task, given), verified, len(verified.verdict))


class SubmissionCaches:
    """Submissions of all tenants; those of a tenant are dropped with its account.

    Args:
        limit_bytes: Total bytes.
        tenant_limit_bytes: Bytes of each tenant.
    """

    def __init__(self, limit_bytes: int, *, tenant_limit_bytes: int) -> None:
        self._limit_bytes, self._tenant_limit_bytes = limit_bytes, tenant_limit_bytes
        self._tenants = WeakKeyDictionary[Account, TenantSubmissions]()

    def of(self, account: Account) -> TenantSubmissions:
        """Submissions of a tenant."""
        return self._tenants.setdefault(account, TenantSubmissions(self._tenant_limit_bytes))

    def make_room(self) -> None:
        """Drops the excess of the tenant with most, so that no tenant below its share loses any."""
        tenants = list(self._tenants.values())
        while sum(sent.held_bytes for sent in tenants) > self._limit_bytes:
            max(tenants, key=lambda sent: sent.held_bytes).drop()


def _key(task: Task, given: Submission) -> VerdictKey:
    digests = frozenset(given.digests.items())
    return task.case.id, task.seed, task.contract, task.standards, digests
