"""aclnnConvTbcBackward: the gradients of a 1-D convolution in the layout (T, B, C)."""
