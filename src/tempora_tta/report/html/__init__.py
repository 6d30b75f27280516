"""The HTML report: one file that opens from disk, without a network."""

from tempora_tta.report.html.page import write_report

__all__ = ["write_report"]
