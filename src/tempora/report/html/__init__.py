"""The HTML report: one file that opens from disk, without a network."""

from tempora.report.html.page import write_report

__all__ = ["write_report"]
