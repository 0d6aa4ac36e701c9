"""Shared parts of the direct algorithms: products, blocks, padded copies and tables of taps."""
