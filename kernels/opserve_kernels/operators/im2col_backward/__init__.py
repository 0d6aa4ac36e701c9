"""aclnnIm2colBackward: overlapping blocks summed back into an image."""
