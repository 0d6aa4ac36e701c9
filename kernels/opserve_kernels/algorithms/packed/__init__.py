"""The gradient of the image and the forward convolution, as products of panels."""
