"""The root of the exception tree, with the fields and the sentence of every error of a call.

OpserveError
└── InvalidArgument     a rule of the contract is broken (161001, 161002, 100000, 107000; the
                        codes of TBE and FT-DSP)

The core adds its own branches in opserve_server.core.errors.
"""

from typing import Any

from typing_extensions import override

from opserve_kernels.status import AnyStatus, Status
from opserve_kernels.user_input import without_keys

MOST_EXTENT = 2**62
"""Greatest size or position of a call: sums of two of them are still 64-bit integers."""
MOST_ELEMENTS = 2**40
"""Greatest number of elements of a tensor: 2 TiB in 16 bits, more than any device holds."""


TEXT_CHARACTERS = 512
"""Greatest length of a text about an error, so that it fits the headers of both wires."""
VALUE_CHARACTERS = 128
"""Greatest length of a given value in a message."""
CHOICES_CHARACTERS = 220
"""Greatest length of the allowed values in a message."""
_LAST_CHARACTERS = 60


def rejection(parameter: str, *, given: object, allowed: object) -> str:
    """The sentence of an error from its parts: what was rejected, and what to pass instead.

    Args:
        parameter: The parameter at fault.
        given: The given value; empty or "nothing" where there is none.
        allowed: The allowed values.

    Returns:
        At most TEXT_CHARACTERS, without API keys: long parts are cut.
    """
    name = shortened(parameter, VALUE_CHARACTERS)
    shown = shortened(without_keys(str(given)), VALUE_CHARACTERS)
    fault = "is missing" if shown in {"", "nothing"} else f"does not accept {shown}"
    return closed(f"{name} {fault}; it accepts {choices_shortened(str(allowed))}")


def closed(text: str) -> str:
    """A sentence from its words; a question, such as that for a misspelt name, stays one."""
    return text if text.endswith("?") else f"{text}."


def choices_shortened(allowed: str) -> str:
    """Allowed values, of many the first and the last ones: the name that is suggested is last."""
    if len(allowed) <= CHOICES_CHARACTERS:
        return allowed
    return f"{allowed[: CHOICES_CHARACTERS - _LAST_CHARACTERS - 1]}…{allowed[-_LAST_CHARACTERS:]}"


def shortened(text: str, characters: int = TEXT_CHARACTERS) -> str:
    """A text cut to a number of characters."""
    return text if len(text) <= characters else f"{text[: characters - 1]}…"


class OpserveError(Exception):
    """A rejected call, with the vendor's code, the value that was given and those allowed.

    Attributes:
        status: The code; its name is the reason, and its domain the family, on every wire.
        message: A sentence that says what happened and what to do, complete by itself. The default
            is made of the parts.
        parameter: The parameter at fault, in snake case, or "".
        given: What was given, or "".
        allowed: What is allowed, or "".
    """

    def __init__(
        self,
        status: AnyStatus,
        message: str = "",
        *,
        parameter: str = "",
        given: object = "",
        allowed: object = "",
    ) -> None:
        message = message or rejection(parameter, given=given, allowed=allowed)
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


def null_argument(parameter: str, *, wanted: str = "a value") -> InvalidArgument:
    """A required argument is missing: the vendor's null pointer (161001)."""
    return InvalidArgument(
        Status.ACLNN_ERR_PARAM_NULLPTR,
        f"{parameter} is required: pass {wanted}.",
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
    return InvalidArgument(status, parameter=parameter, given=given, allowed=allowed)


def check_extent(*numbers: int) -> None:
    """Rejects a call whose sizes or positions its loops could not count in 64 bits (207001)."""
    largest = max(numbers)
    if largest > MOST_EXTENT:
        raise InvalidArgument(
            Status.ACL_ERROR_RT_MEMORY_ALLOCATION,
            f"call does not accept sizes or positions up to {largest}; the greatest is "
            f"{MOST_EXTENT}.",
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
            parameter="call",
            given=f"a tensor of {largest} elements",
            allowed=f"at most {MOST_ELEMENTS}",
        )
