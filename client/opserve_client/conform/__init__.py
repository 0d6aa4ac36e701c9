"""Conformance: somebody's kernels tried on the cases of a suite, and judged."""
