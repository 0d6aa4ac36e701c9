"""What direct algorithms share: a product with its blocks, padded copies and tables of taps."""
