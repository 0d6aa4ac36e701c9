"""The gradient of the weight as dot products, for few channels."""
