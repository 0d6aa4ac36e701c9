"""Parts of the protocol that opserve does not have, each with the reason, for both APIs."""

from collections.abc import Container, Mapping

from opserve_kernels.status import Status
from opserve_server.core.errors import NotSupported

_BUILT_IN = "models are built in"
_MEMORY = "send tensors in the message, or map device memory by opserve's own client"
REASONS: Mapping[str, str] = {
    "RepositoryModelLoad": _BUILT_IN,
    "RepositoryModelUnload": _BUILT_IN,
    "SystemSharedMemoryStatus": _MEMORY,
    "SystemSharedMemoryRegister": _MEMORY,
    "SystemSharedMemoryUnregister": _MEMORY,
    "CudaSharedMemoryStatus": _MEMORY,
    "CudaSharedMemoryRegister": _MEMORY,
    "CudaSharedMemoryUnregister": _MEMORY,
    "TraceSetting": "the administrator of the service configures traces",
    "LogSettings": "the administrator of the service configures logs",
    "Generate": "call infer, which returns tensors",
    "Content-Encoding": "send the body without compression",
}
"""Methods and headers, each with the reason or what to do instead."""
_OF_TENSORS: Mapping[str, str] = {
    "shared_memory_region": _MEMORY,
    "classification": "read the tensor, which has every value",
}
"""Parameters of tensors."""


def not_supported(name: str) -> NotSupported:
    """The error of a method or header in REASONS."""
    return _error(name, REASONS[name])


def check_tensor_parameters(given: Container[str]) -> None:
    """Rejects parameters of a tensor that would change what it means (NotSupported, 200001)."""
    for name, reason in _OF_TENSORS.items():
        if name in given:
            raise _error(name, reason)


def no_sequences() -> NotSupported:
    """The error of a call that is part of a sequence."""
    return _error("sequence_id", "send each call without parameters that begin with sequence_")


def _error(name: str, reason: str) -> NotSupported:
    return NotSupported(
        Status.ACL_ERROR_API_NOT_SUPPORT,
        f"{name} is not supported: {reason}.",
        parameter=name,
        given="a use of it",
        allowed="none",
    )
