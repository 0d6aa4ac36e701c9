"""Protocols apart from transports: methods, JSON messages, errors."""
