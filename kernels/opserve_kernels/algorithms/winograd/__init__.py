"""Winograd's transforms for kernels of 3x3, 5x5 and 1x3 with many channels."""
