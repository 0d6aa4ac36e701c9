"""The Open Inference Protocol: operators as models, for both APIs."""
