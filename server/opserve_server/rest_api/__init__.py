"""The REST face of the service."""
