"""What crosses between the front and a device worker, and nothing else does: frames of integers.

A frame is a header (kind, length) and a body of little-endian 64-bit integers. Slabs travel beside their
frame as file descriptors.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Region:
    """Bytes of a slab.

    Attributes:
        slab: The slab's id.
        offset: Bytes from its start.
        size_bytes: Length.
    """

    slab: int
    offset: int
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelCall:
    """One run of a planned call on a device.

    Attributes:
        operator: Snake-case name in the registry.
        units: Work units to run, in order.
        parameters: Plan.parameters.
        tensors: One region for each tensor field of the schema, the tensor's whole buffer; None where null.
        workspace: Scratch memory of exactly the planned size; None where that is 0.
    """

    operator: str
    units: int
    parameters: tuple[int, ...]
    tensors: tuple[Region | None, ...]
    workspace: Region | None
