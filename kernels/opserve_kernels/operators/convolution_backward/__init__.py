"""aclnnConvolutionBackward: the gradients of a convolution."""
