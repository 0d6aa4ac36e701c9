"""The range of operands, measured before transforms."""
