"""The version of the service."""

from importlib.metadata import version

VERSION = version("opserve")
"""Version of the installed distribution, such as "1.4.2"."""
