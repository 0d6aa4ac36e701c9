"""aclnnConvolution: a convolution in one, two or three dimensions, plain or transposed."""
