"""Imported last by the fork server: every worker is forked with all that was loaded before."""

from opserve_server.allocator import spare_what_is_loaded

spare_what_is_loaded()
