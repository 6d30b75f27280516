"""Writes the pages of the reference that come from the code: `python docs/generate.py`."""

from __future__ import annotations

from pathlib import Path

from tempora.store.schema import as_markdown

DOCS = Path(__file__).parent

if __name__ == "__main__":
    (DOCS / "schema.md").write_text(as_markdown(), encoding="utf-8")
