"""TBE DSL conv2d_backprop_filter: the gradient of a convolution with respect to its weight."""
