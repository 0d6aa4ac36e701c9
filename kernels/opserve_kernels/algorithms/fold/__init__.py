"""Columns summed back into an image: im2col_backward."""
