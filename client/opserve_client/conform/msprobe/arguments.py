"""Arguments of a recorded call by name, from its entry in dump.json."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from opserve_kernels.cases.calls import Row
from opserve_kernels.cases.readers.read import Inexpressible
from opserve_kernels.errors import rejection

_CONVOLUTION = ("input", "weight", "bias", "stride", "padding", "dilation", "groups")
_TRANSPOSED = (
    *("input", "weight", "bias", "stride", "padding"),
    *("output_padding", "groups", "dilation"),
)
_ANY = (
    *("input", "weight", "bias", "stride", "padding", "dilation"),
    *("transposed", "output_padding", "groups"),
)
_BACKWARD = (
    *("grad_output", "input", "weight", "bias_sizes", "stride", "padding", "dilation"),
    *("transposed", "output_padding", "groups", "output_mask"),
)
_NPU_TRANSPOSED = (
    *("input", "weight", "bias", "padding", "output_padding"),
    *("stride", "dilation", "groups"),
)
PARAMETERS: Mapping[str, tuple[str, ...]] = {
    **{
        f"{prefix}.conv{axes}d": _CONVOLUTION
        for prefix in ("Functional", "Torch", "MintFunctional")
        for axes in (1, 2, 3)
    },
    **{
        f"{prefix}.conv_transpose{axes}d": _TRANSPOSED
        for prefix in ("Functional", "Torch", "MintFunctional")
        for axes in (1, 2, 3)
    },
    **dict.fromkeys(("Torch.convolution", "Aten.convolution"), _ANY),
    "Aten.convolution_backward": _BACKWARD,
    **dict.fromkeys(("NPU.npu_conv2d", "NPU.npu_conv3d", "NPU.npu_convolution"), _CONVOLUTION),
    "NPU.npu_conv_transpose2d": _NPU_TRANSPOSED,
    "Functional.fold": ("input", "output_size", "kernel_size", "dilation", "padding", "stride"),
    "Functional.unfold": ("input", "kernel_size", "dilation", "padding", "stride"),
    "Torch.conv_tbc": ("input", "weight", "bias", "pad"),
}
"""Positional parameters of the functions that opserve computes, by their names in a dump."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """A tensor of a recorded call.

    Attributes:
        dtype: Its dtype, in lower case and without a package: "float32".
        shape: Its shape.
        file: Name of its file; "" if the dump has statistics only.
        needs_gradient: Whether its gradient is computed.
    """

    dtype: str
    shape: Row
    file: str
    needs_gradient: bool


class Arguments:
    """Arguments of a call by name.

    Args:
        values: The arguments; tensors are Recorded.
    """

    def __init__(self, values: Mapping[str, object]) -> None:
        self._values = values

    def tensor(self, name: str) -> Recorded:
        """Returns a required tensor."""
        found = self._values.get(name)
        if not isinstance(found, Recorded):
            raise Inexpressible(f"{name}: the dump has no tensor")
        return found

    def optional_tensor(self, name: str) -> Recorded | None:
        """Returns a tensor; None where the argument is none."""
        found = self._values.get(name)
        return found if isinstance(found, Recorded) else None

    def needs_gradient(self, name: str) -> bool:
        """Returns whether an argument is a tensor whose gradient is computed."""
        found = self._values.get(name)
        return isinstance(found, Recorded) and found.needs_gradient

    def row(self, name: str, axes: int, default: int) -> Row:
        """Returns an integer for each axis; a single one is that of all axes."""
        given = self._values.get(name)
        entries = cast("list[object]", given) if isinstance(given, list) else [given]
        if entries in ([], [None]):
            entries = [default]
        numbers = tuple(one for one in entries if isinstance(one, int))
        if len(numbers) != len(entries) or len(numbers) not in {1, axes}:
            raise Inexpressible(rejection(name, given=_shown(entries), allowed=f"{axes} integers"))
        return numbers if len(numbers) == axes else numbers * axes

    def integer(self, name: str, default: int) -> int:
        """Returns an integer."""
        (found,) = self.row(name, 1, default)
        return found

    def flag(self, name: str) -> bool:
        """Returns a boolean; False where the argument is none."""
        return self._values.get(name) is True

    def flags(self, name: str) -> tuple[bool, ...]:
        """Returns a list of booleans."""
        given = self._values.get(name)
        entries = cast("list[object]", given) if isinstance(given, list) else []
        return tuple(one for one in entries if isinstance(one, bool))

    def text(self, name: str) -> str:
        """Returns a text; "" where the argument is none."""
        found = self._values.get(name)
        return found if isinstance(found, str) else ""


def arguments_of(parameters: tuple[str, ...], entry: Mapping[str, object]) -> Arguments:
    """Returns the arguments in an entry of a forward call.

    Raises:
        Inexpressible: The entry is malformed, or has other arguments.
    """
    values = _list(entry.get("input_args", []))
    if len(values) > len(parameters):
        raise Inexpressible(
            rejection(
                "input_args", given=f"{len(values)} arguments", allowed=f"at most {len(parameters)}"
            )
        )
    named = {
        **dict(zip(parameters, values, strict=False)),
        **_object(entry.get("input_kwargs", {})),
    }
    return Arguments({name: _value(value) for name, value in named.items()})


def tensors_of(value: object) -> list[Recorded]:
    """Returns the tensors in a list of an entry, such as its output gradients."""
    found = map(_value, _list(value))
    return [one for one in found if isinstance(one, Recorded)]


def _value(value: object) -> object:
    """Returns an argument: a tensor, a constant, or a list of them."""
    if isinstance(value, list):
        return [_value(one) for one in cast("list[object]", value)]
    if not isinstance(value, dict):
        return None
    form = cast("dict[str, object]", value)
    if "value" in form:
        return form["value"]
    if "shape" not in form:
        return None
    dtype = str(form.get("dtype")).rpartition(".")[2].lower()
    shape = tuple(one for one in _list(form["shape"]) if isinstance(one, int) and one >= 0)
    if len(shape) != len(_list(form["shape"])):
        raise Inexpressible("the shape of a tensor is malformed")
    return Recorded(
        dtype=dtype,
        shape=shape,
        file=str(form.get("data_name") or ""),
        needs_gradient=form.get("requires_grad", True) is True,
    )


def _list(value: object) -> list[object]:
    if not isinstance(value, list):
        raise Inexpressible("an entry of dump.json is malformed")
    return cast("list[object]", value)


def _object(value: object) -> dict[str, object]:
    if not isinstance(value, dict):
        raise Inexpressible("an entry of dump.json is malformed")
    return cast("dict[str, object]", value)


def _shown(value: object) -> str:
    return repr(value)[:64]
