"""The dashboard: pages that the service serves, and the files that they load."""
