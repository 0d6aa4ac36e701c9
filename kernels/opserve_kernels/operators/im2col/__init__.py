"""aclnnIm2col: blocks of an image copied into columns."""
