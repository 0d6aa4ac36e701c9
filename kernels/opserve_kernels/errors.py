"""The root of the exception tree, with the fields of every error that rejects a call.

OpserveError
└── InvalidArgument     a rule of the contract is broken (161001, 161002, 100000, 107000; the
                        codes of TBE and FT-DSP)

The core adds its own branches in opserve_server.core.errors.
"""

from typing import Any

from typing_extensions import override

from opserve_kernels.status import AnyStatus, Status

MOST_EXTENT = 2**62
"""Greatest size or position of a call: sums of two of them are still 64-bit integers."""
MOST_ELEMENTS = 2**40
"""Greatest number of elements of a tensor: 2 TiB in 16 bits, more than any device holds."""


class OpserveError(Exception):
    """A rejected call, with the vendor's code, the value that was given and those allowed.

    Attributes:
        status: The code; its name is the reason, and its domain the family, on every wire.
        message: One sentence for a person, complete by itself.
        parameter: The parameter at fault, in snake case, or "".
        given: What was given, or "".
        allowed: What is allowed, or "".
    """

    def __init__(
        self,
        status: AnyStatus,
        message: str,
        *,
        parameter: str = "",
        given: object = "",
        allowed: object = "",
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.parameter = parameter
        self.given = str(given)
        self.allowed = str(allowed)

    @override
    def __reduce__(self) -> tuple[Any, ...]:
        """Lets an error cross processes, whatever arguments its class takes."""
        return _unmade, (type(self), self.args), vars(self)


def _unmade(kind: type[OpserveError], args: tuple[object, ...]) -> OpserveError:
    return kind.__new__(kind, *args)


class InvalidArgument(OpserveError):
    """A parameter breaks a rule of the contract; nothing was changed."""


def null_argument(parameter: str) -> InvalidArgument:
    """A required argument is missing: the vendor's null pointer (161001)."""
    return InvalidArgument(
        Status.ACLNN_ERR_PARAM_NULLPTR,
        f"{parameter}: is missing (a null pointer), but must be given",
        parameter=parameter,
        given="nothing",
        allowed="a value",
    )


def invalid_argument(
    parameter: str,
    *,
    given: object,
    allowed: object,
    status: AnyStatus = Status.ACLNN_ERR_PARAM_INVALID,
) -> InvalidArgument:
    """An argument breaks a rule of the operator: 161002, or the code of another family."""
    return InvalidArgument(
        status,
        f"{parameter}: given {given}, allowed {allowed}",
        parameter=parameter,
        given=given,
        allowed=allowed,
    )


def check_extent(*numbers: int) -> None:
    """Rejects a call whose sizes or positions its loops could not count in 64 bits (207001)."""
    largest = max(numbers)
    if largest > MOST_EXTENT:
        raise InvalidArgument(
            Status.ACL_ERROR_RT_MEMORY_ALLOCATION,
            f"call: given sizes or positions up to {largest}, allowed {MOST_EXTENT}",
            parameter="call",
            given=largest,
            allowed=MOST_EXTENT,
        )


def check_elements(*counts: int) -> None:
    """Rejects a call with a tensor that no device could hold (207001).

    Operators check it after all rules of the vendor. Strides of 0 make such tensors, whose buffers
    are small: the call would pass all other checks and run for hours.

    Args:
        counts: Elements of each tensor.
    """
    largest = max(counts, default=0)
    if largest > MOST_ELEMENTS:
        raise InvalidArgument(
            Status.ACL_ERROR_RT_MEMORY_ALLOCATION,
            f"call: given a tensor of {largest} elements, allowed at most {MOST_ELEMENTS}",
            parameter="call",
            given=f"a tensor of {largest} elements",
            allowed=f"at most {MOST_ELEMENTS}",
        )
