"""The page of a run, and of several."""

from tempora_tta.report.html.index import write_reports
from tempora_tta.report.html.page import write_report

__all__ = ["write_report", "write_reports"]
