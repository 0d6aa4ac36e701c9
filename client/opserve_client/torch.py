"""PyTorch's convolutions on a virtual device: inside `with offload(client):`, in every thread.

The service computes convolutions, their gradients, unfold and fold in place of PyTorch's kernels
for the CPU. Autograd, vmap, autocast and torch.compile are above these kernels. Needs the extra
`torch`.
"""

import warnings
from collections import Counter
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from functools import partial
from importlib import import_module
from threading import Lock
from typing import Any, Literal, TypeAlias

import ml_dtypes
import numpy as np

from opserve_client import extras
from opserve_client._sync.client import Client
from opserve_client._sync.session import Session
from opserve_client.arguments import choice
from opserve_client.errors import AclnnError, invalid_parameter
from opserve_client.operators import OperatorCall, OperatorClass
from opserve_client.operators.convolution import Convolution
from opserve_client.operators.convolution_backward import ConvolutionBackward, CubeMathType
from opserve_client.operators.im2col import Im2col
from opserve_client.operators.im2col_backward import Im2colBackward
from opserve_client.tensors import Array
from opserve_kernels.array_like import as_array

__all__ = ["Offload", "Reason", "offload"]

Tensor: TypeAlias = Any
"""PyTorch's class: this module is imported without PyTorch, too."""
OnRefusal: TypeAlias = Literal["raise", "original"]
_ON_REFUSAL: Mapping[str, OnRefusal] = {"raise": "raise", "original": "original"}
_OPERATORS: Mapping[str, OperatorClass] = {
    "convolution": Convolution,
    "convolution_backward": ConvolutionBackward,
    "im2col": Im2col,
    "col2im": Im2colBackward,
}
"""Operators by PyTorch's names, with their arguments in PyTorch's order."""
_VECTOR = 1  # dimensions of the gradient of a bias
_active = Lock()


class Reason(StrEnum):
    """Why a call was not offloaded."""

    COMPLEX = "complex"
    DTYPE = "dtype"
    EMPTY = "empty"
    MIXED = "mixed"
    REJECTED = "rejected"
    SUBCLASS = "subclass"


@dataclass(frozen=True, slots=True)
class Offload:
    """Counts of calls since the beginning of the block.

    Attributes:
        offloaded: Calls that the service computed, by PyTorch's name of the operator.
        not_offloaded: Other calls by reason: an operand is complex, has a dtype of no profile, is
            empty or is of a subclass of Tensor; operands have several dtypes; the operator
            rejected the call.
    """

    offloaded: Counter[str] = field(default_factory=Counter[str])
    not_offloaded: Counter[Reason] = field(default_factory=Counter[Reason])


@contextmanager
def offload(
    client: Client,
    *,
    profile: str = "ascend910b",
    cube_math_type: CubeMathType | int = CubeMathType.KEEP_DTYPE,
    on_refusal: OnRefusal = "raise",
) -> Generator[Offload]:
    """Replaces PyTorch's kernels until the block ends, in all threads of the process.

    Tensors of float32, float16 and bfloat16 go to a device of the profile, float64 to one of
    `reference`. Calls follow the vendor's source: a rule that only the vendor's page states is a
    DocumentedRuleWarning.

    Args:
        client: A blocking client.
        profile: The product that the device models, as for `Client.open_session`.
        cube_math_type: Precision of convolutions. On ascend910 and ascend310p, float32 needs
            ALLOW_FP32_DOWN_PRECISION.
        on_refusal: Result of a call that the operator rejects, such as one beyond a limit of the
            profile: "raise" raises the AclnnError, "original" computes it by PyTorch.

    Returns:
        The counts of offloaded calls and of others.

    Raises:
        MissingExtra: PyTorch is not installed.
        AclrtError: 107000, another block is active or an argument is wrong; otherwise as
            `Client.open_session`.
    """
    extras.require("torch", need="offload")
    answer = choice(on_refusal, _ON_REFUSAL, parameter="on_refusal")
    if not _active.acquire(blocking=False):
        raise invalid_parameter("offload", "a block within another", "one block at a time")
    with ExitStack() as stack:
        stack.callback(_active.release)
        devices = _Devices(client, profile, int(cube_math_type), stack)
        kernels = _Kernels(devices, answer)
        stack.enter_context(kernels.replacing())
        yield kernels.counts


class _Kernels:
    """The kernels in place of PyTorch's."""

    def __init__(self, devices: "_Devices", on_refusal: OnRefusal) -> None:
        self.counts = Offload()
        self._devices, self._on_refusal = devices, on_refusal
        self._lock = Lock()

    @contextmanager
    def replacing(self) -> Generator[None]:
        """Replaces PyTorch's kernels until the block ends."""
        torch = _torch()
        library = torch.library.Library("aten", "IMPL")
        try:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "Warning only once for all operators")
                for name in _OPERATORS:
                    original = torch.library.get_kernel(f"aten::{name}", "CPU")
                    kernel = partial(self._compute, name, original)
                    library.impl(name, kernel, "CPU", with_keyset=True, allow_override=True)
            yield
        finally:
            library._destroy()  # noqa: SLF001  PyTorch has no public way to restore its kernels

    def _compute(self, name: str, original: Any, keyset: Any, *given: Any) -> Any:  # noqa: ANN401  PyTorch's
        """Computes a call on the service, or by PyTorch's own kernel."""
        reason = _reason_against([one for one in given if isinstance(one, _torch().Tensor)])
        rejection: AclnnError | None = None
        if reason is None:
            try:
                results = self._devices.run(_OPERATORS[name], given)
            except AclnnError as error:
                reason, rejection = Reason.REJECTED, error
            else:
                self._count(self.counts.offloaded, name)
                return results
        self._count(self.counts.not_offloaded, reason)
        # Before the rejection is raised, too: what PyTorch rejects as well raises PyTorch's error.
        results = original.call_boxed(keyset, *given)
        if rejection is not None and self._on_refusal == "raise":
            raise rejection
        return results

    def _count(self, counter: Counter[Any], key: str) -> None:
        with self._lock:
            counter[key] += 1


class _Devices:
    """Sessions by profile; that of `reference` opens with the first call in float64."""

    def __init__(self, client: Client, profile: str, cube_math_type: int, stack: ExitStack) -> None:
        self._client, self._profile, self._stack = client, profile, stack
        self._cube_math_type = cube_math_type
        self._lock = Lock()
        self._sessions: dict[str, Session] = {}
        self._session(profile)

    def run(self, operator: OperatorClass, given: Sequence[Any]) -> Tensor:
        """Returns the tensor of a call, or a tuple with None for each that was not requested."""
        is_double = given[0].dtype is _torch().float64
        session = self._session("reference" if is_double else self._profile)
        cube_math_type = CubeMathType.KEEP_DTYPE if is_double else self._cube_math_type
        arguments = dict(zip(_argument_names(operator), given, strict=True))
        outputs = session.run(_call(operator, arguments, cube_math_type))
        operands = [arguments[name] for name in ("input", "weight") if name in arguments]
        results = [None if one is None else _tensor(one, operands) for one in outputs]
        return tuple(results) if len(results) > 1 else results[0]

    def _session(self, profile: str) -> Session:
        with self._lock:
            if profile not in self._sessions:
                opening = self._client.open_session(profile, documented_rules="warn")
                self._sessions[profile] = self._stack.enter_context(opening)
            return self._sessions[profile]


def _reason_against(tensors: Sequence[Tensor]) -> Reason | None:
    torch = _torch()
    plain = (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer)
    if any(type(tensor) not in plain for tensor in tensors):
        return Reason.SUBCLASS
    dtypes = {tensor.dtype for tensor in tensors}
    if any(dtype.is_complex for dtype in dtypes):
        return Reason.COMPLEX
    if len(dtypes) > 1:
        return Reason.MIXED
    if not dtypes <= {torch.float16, torch.bfloat16, torch.float32, torch.float64}:
        return Reason.DTYPE
    return Reason.EMPTY if not all(tensor.numel() for tensor in tensors) else None


def _argument_names(operator: OperatorClass) -> list[str]:
    others = {*operator.schema.OUTPUTS, "cube_math_type"}
    return [field.name for field in fields(operator) if field.name not in others]


def _call(
    operator: OperatorClass, arguments: dict[str, Any], cube_math_type: int
) -> OperatorCall[tuple[Array | None, ...]]:
    values = {name: _plain(value) for name, value in arguments.items()}
    if "cube_math_type" in {field.name for field in fields(operator)}:
        values["cube_math_type"] = cube_math_type
    if not values.get("output_mask", [True])[-1]:
        values["bias_sizes"] = None  # PyTorch gives [0] for a convolution without bias
    call: Any = operator(**values)
    one_for_all = [name for name in call.dimensions() if len(values[name]) == 1]
    made: OperatorCall[tuple[Array | None, ...]] = replace(
        call, **{name: values[name][0] for name in one_for_all}
    )
    return made


def _plain(value: Any) -> Any:  # noqa: ANN401  an argument of PyTorch's
    if not isinstance(value, _torch().Tensor):
        return value
    return as_array(value.detach().resolve_conj().resolve_neg().contiguous())


def _tensor(array: Array, operands: Iterable[Tensor]) -> Tensor:
    """Returns the elements as a tensor, with channels last if an operand has them there."""
    torch = _torch()
    if array.dtype == ml_dtypes.bfloat16:
        tensor = torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    else:
        tensor = torch.from_numpy(array)
    # By the strides: a tensor of one channel or pixel is contiguous in either format.
    formats = {torch._prims_common.suggest_memory_format(one) for one in operands}  # noqa: SLF001
    for format_ in formats - {torch.contiguous_format}:
        tensor = tensor.contiguous(memory_format=format_) if tensor.dim() > _VECTOR else tensor
    return tensor


def _torch() -> Any:  # noqa: ANN401  PyTorch, which this environment may lack
    return import_module("torch")
