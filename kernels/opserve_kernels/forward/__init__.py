"""Forward convolutions: calls, rules, roundings and plans that their operators share."""
