"""A board: many runs on one static site that opens from disk. No torch."""

from tempora.report.board.gather import Entry, Gathered, Refused, gather
from tempora.report.board.history import Change, changes
from tempora.report.board.site import Board, write_board

__all__ = ["Board", "Change", "Entry", "Gathered", "Refused", "changes", "gather", "write_board"]
