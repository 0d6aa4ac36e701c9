"""The interface of an operator to the rest of the system: schema, plan and kernel name."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from functools import cache
from typing import Generic, TypeVar

from opserve_kernels.algorithms.host import VARIANT
from opserve_kernels.errors import check_extent
from opserve_kernels.profiles import Profile
from opserve_kernels.status import AnyStatus
from opserve_kernels.tensor import DataType, Format, Tensor

WORKSPACE_ALIGNMENT = 512
PARAMETERS_LIMIT = 6144
"""Parameters of a plan, at most: a message to a worker has room for this many."""

Arguments = TypeVar("Arguments")


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedBuffer:
    """A buffer that a call names without reading or writing it.

    Attributes:
        parameter: The parameter that names it.
        handle: Its handle.
        size_bytes: Least size of the buffer, in bytes.
        status: The code that rejects another buffer.
    """

    parameter: str
    handle: int
    size_bytes: int
    status: AnyStatus


class Accuracy(StrEnum):
    """Error bounds that a caller selects; docs/explanation/error-bounds.md derives both."""

    DIRECT = "direct"
    """Direct sums: the error of each result is bounded by its own products."""
    FAST = "fast"
    """Also transforms (Winograd), whose error is bounded by the products of a neighbourhood."""


class DocumentedRules(StrEnum):
    """The answer to a call that breaks a rule which only the vendor's page states."""

    ERROR = "error"
    """The call is rejected with the rule's code."""
    WARN = "warn"
    """The call follows the vendor's source; the plan lists the broken rules."""


class RuleOrigin(StrEnum):
    """The source of a rule; it decides whether a call that breaks the rule is rejected."""

    BOTH = "both"
    """The vendor's page and source, or its page where no source is public: an error."""
    SOURCE = "source"
    """The vendor's source alone: an error."""
    PAGE = "page"
    """The page alone: an error or a warning, as DocumentedRules say."""
    CONTRADICTED = "contradicted"
    """The page, but a sample, a unit test or a client of the vendor's breaks it: a warning."""
    OPSERVE = "opserve"
    """The source does not check it, and without it the result would be undefined: an error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleWarning:
    """A broken rule of the vendor's page, for a call that is accepted nevertheless.

    Attributes:
        status: The code with which DocumentedRules.ERROR rejects the call.
        parameter: The parameter that breaks the rule.
        given: The value that was given.
        allowed: The values that the page allows.
        sentence: The page's sentence, in the page's own language.
    """

    status: AnyStatus
    parameter: str
    given: str
    allowed: str
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A call prepared before it runs: pure data, and the same for all equal arguments.

    Attributes:
        workspace_size: Bytes of scratch memory the kernel uses, a multiple of 512; exact.
        shares: Work units of each share. Units of a share run in order, in slices of any size.
            Shares do not depend on each other, so each may have a thread of its own. Units are
            numbered through all shares.
        parameters: Everything the kernel needs besides memory: stages packed by `stages.plan_of`,
            from which the worker reads where each ends; at most PARAMETERS_LIMIT integers below
            2^62.
        buffers: Buffers that must be live and large enough, besides those of the tensors.
        algorithms: The algorithm of each gradient: "image: winograd".
        variant: The kernel variant that, with this plan, fixes the bytes of its results; empty
            where they are the same on any computer.
        warnings: Broken rules of the vendor's page: those of RuleOrigin.CONTRADICTED always, those
            of RuleOrigin.PAGE under DocumentedRules.WARN.
    """

    workspace_size: int
    shares: tuple[int, ...]
    parameters: tuple[int, ...]
    buffers: tuple[NamedBuffer, ...] = ()
    algorithms: tuple[str, ...] = ()
    variant: str = ""
    warnings: tuple[RuleWarning, ...] = ()

    def __post_init__(self) -> None:
        """Rejects a plan with numbers beyond 64 bits: strides of 0 make such tensors (207001)."""
        check_extent(self.workspace_size, self.units, *self.parameters)

    @property
    def units(self) -> int:
        """Work units of all shares, which one thread may run in order 0 .. units-1."""
        return sum(self.shares)


def variant_on(profile: Profile) -> str:
    """The kernel variant of a profile on this computer; empty on `reference`, which needs none."""
    return "" if profile.is_reference else VARIANT.name


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanOptions:
    """Options of a session for all its plans.

    Attributes:
        accuracy: Error bound that every result keeps; DIRECT excludes Winograd's algorithm.
        documented_rules: Answer to a call that breaks a rule which only the vendor's page states.
        workspace_limit: Bytes of workspace that a plan keeps within, by slower algorithms if they
            need less; if none does, the plan is the smallest. None: any size.
        threads: Shares of a plan, at most.
        batch_consistent: Whether an entry of the batch has the same bytes, in results with entries,
            as in a call of that entry alone. Winograd never computes such results, and
            `workspace_limit` does not choose their algorithm.
        algorithms: Algorithms of gradients, as Plan.algorithms reports them: "image: packed". A
            plan that cannot use them is rejected. Gradients without a name take the fastest
            algorithm.
    """

    accuracy: Accuracy = Accuracy.DIRECT
    documented_rules: DocumentedRules = DocumentedRules.ERROR
    workspace_limit: int | None = None
    threads: int = 1
    batch_consistent: bool = False
    algorithms: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Support:
    """The support of an operator on one profile; an operator that needs more extends it.

    Attributes:
        dtypes: Dtypes that tensors may have.
        source_only: Those of them that only the vendor's newer source has, not its page.
        notes: Further remarks for a reader of a table: "1-D and 2-D".
    """

    dtypes: tuple[DataType, ...]
    source_only: tuple[DataType, ...] = ()
    notes: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A row of an operator's error table.

    Attributes:
        status: The code.
        parameter: The parameter that the error names.
        broken: The condition that breaks the rule: "a value below 1".
        origin: Source of the rule.
        sentence: The page's sentence in its own language, for PAGE and CONTRADICTED.
        profiles: Profiles of the rule; empty means wherever the operator is supported.
    """

    status: AnyStatus
    parameter: str
    broken: str
    origin: RuleOrigin
    sentence: str = ""
    profiles: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """A documented bound of an argument's values.

    Attributes:
        parameter: The argument.
        where: The values and cases that it bounds: "H and W in 3-D"; empty means all, always.
        least: Least value.
        most: Greatest value; None if no document has one.
        profiles: Profiles of the bound; empty means wherever the operator is supported.
    """

    parameter: str
    where: str = ""
    least: int
    most: int | None
    profiles: tuple[str, ...] = ()

    def holds(self, value: int) -> bool:
        """Whether the value is within the bound."""
        return self.least <= value and (self.most is None or value <= self.most)


@dataclass(frozen=True, slots=True, kw_only=True)
class Operator(Generic[Arguments]):
    """A named computation.

    Attributes:
        name: Snake case, as in folders, messages and the registry.
        call: The vendor's name (aclnnXxx).
        family: "aclnn", "tbe" or "ft_dsp".
        revision: Revision of the contract; grows whenever a call is answered differently than
            before.
        support: Support on each profile that has the operator, by the profile's name.
        rules: The error table.
        documented_rules: Answer to a broken rule of the page in sessions with
            DocumentedRules.ERROR, the default of sessions. Operators with a page of their own
            choose ERROR; WARN, the default here, follows the vendor's source in every session.
        limits: Documented bounds of values.
        schema: Frozen dataclass of the arguments; its `Tensor | None` fields, in order, are the
            tensors that a kernel receives and that SetTensorBuffer counts.
        outputs: Names of the tensor fields that the kernel writes.
        formats: Formats of arrays by number of dimensions, for callers that name none; ND
            elsewhere.
        ranks: Numbers of dimensions of its tensors, in the order of tensor_fields, by the form of
            the call: "" is the usual one, "1d" and "unbatched" are others. For callers that must
            declare them.
        infer_outputs: The output tensors (contiguous, no buffer) implied by arguments whose output
            fields are None; outputs that cannot be inferred are left out.
        plan: Checks the arguments in the vendor's order and plans; raises InvalidArgument.
    """

    name: str
    call: str
    family: str
    revision: int
    support: Mapping[str, Support]
    rules: tuple[Rule, ...]
    documented_rules: DocumentedRules = DocumentedRules.WARN
    limits: tuple[Limit, ...] = ()
    schema: type[Arguments]
    outputs: tuple[str, ...]
    formats: Mapping[int, Format]
    ranks: Mapping[str, tuple[int, ...]]
    infer_outputs: Callable[[Arguments], Mapping[str, Tensor]]
    plan: Callable[[Arguments, Profile, PlanOptions], Plan]

    def kernel(self, profile: Profile) -> str:
        """Returns the module with `run(parameters, tensors, workspace, first_unit, last_unit)`.

        It imports numba, so only workers import it. `tensors` are byte views of whole buffers,
        empty where null.
        """
        module = "reference_kernel" if profile.is_reference else "kernel"
        return f"opserve_kernels.operators.{self.name}.{module}"

    @property
    def tensor_fields(self) -> tuple[str, ...]:
        """Names of the tensor arguments in the schema's order."""
        schema: type = self.schema
        return _tensor_fields(schema)


@cache
def _tensor_fields(schema: type) -> tuple[str, ...]:
    return tuple(field.name for field in fields(schema) if field.type == (Tensor | None))
