"""Imported last by the fork server: every worker is forked with all that was loaded before."""

from opserve_server.allocator import freeze_loaded_objects

freeze_loaded_objects()
