"""A board: many runs on one static site that opens from disk. No torch."""

from tempora_tta.report.board.gather import Entry, Gathered, Refused, gather
from tempora_tta.report.board.history import Change, changes
from tempora_tta.report.board.site import Board, write_board

__all__ = ["Board", "Change", "Entry", "Gathered", "Refused", "changes", "gather", "write_board"]
