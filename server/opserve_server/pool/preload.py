"""Imported once by the fork server: workers are forked with every kernel already loaded."""

from opserve_kernels.registry import OPERATORS
from opserve_server.allocator import spare_what_is_loaded
from opserve_server.pool.worker import load_kernels

load_kernels({operator.name: operator.kernel for operator in OPERATORS.values()})
spare_what_is_loaded()
