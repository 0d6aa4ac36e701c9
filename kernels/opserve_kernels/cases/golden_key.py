"""The name that golden values have in a cache: equal names have equal values."""

from hashlib import sha256

import numpy as np

from opserve_kernels.cases.case import canonical
from opserve_kernels.cases.fill import Array
from opserve_kernels.cases.golden import GoldenCall
from opserve_kernels.cases.suite import REVISION


def golden_key(call: GoldenCall, *, contract: str) -> str:
    """64 hexadecimal digits that follow from the call, its operands' bits and the two revisions.

    Args:
        call: Of the profile `reference`.
        contract: Revision of the operator's contract.
    """
    case = call.case
    about = {
        "operator": case.operator,
        "arguments": case.arguments,
        "tensors": {
            name: [tensor.shape, tensor.format, tensor.dtype]
            for name, tensor in case.tensors.items()
        },
        "operands": {name: _digest(operand) for name, operand in call.operands.items()},
        "sized": () if call.sized is None else call.sized.written,
        "contract": contract,
        "cases": REVISION,
    }
    return sha256(canonical(about).encode()).hexdigest()


def _digest(operand: Array) -> str:
    data = np.ascontiguousarray(operand).reshape(-1).view(np.uint8).data
    return f"{operand.dtype.name} {sha256(data).hexdigest()}"
