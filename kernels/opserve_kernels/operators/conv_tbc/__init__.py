"""aclnnConvTbc: a 1-D convolution of images (T, B, C)."""
