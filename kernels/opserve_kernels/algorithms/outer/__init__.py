"""The gradient of the weight as outer products, for many channels."""
