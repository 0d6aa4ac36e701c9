"""TBE DSL conv2d_backprop_input: the gradient of a convolution with respect to its input."""
