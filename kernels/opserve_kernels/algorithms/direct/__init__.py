"""The choice of an algorithm for a product of a convolution, and its stages."""
