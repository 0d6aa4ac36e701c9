"""Last import of the fork server: every worker inherits all objects loaded before."""

from opserve_server.allocator import freeze_loaded_objects

freeze_loaded_objects()
