"""The kernels beside PyTorch on a CPU, in one process and one thread."""
