"""The report of a run as one HTML file, which needs no network."""

from opserve_client.conform.report.file import write_report

__all__ = ["write_report"]
