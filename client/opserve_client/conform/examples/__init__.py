"""Kernels of others as targets; each needs the package that it is of."""
