"""aclnnConvDepthwise2d: a 2-D convolution of each channel with filters of its own."""
