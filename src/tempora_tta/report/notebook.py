"""Results in a notebook: the list of settings with the best and the next method, as text or a few lines of HTML."""

from __future__ import annotations

import html
from typing import Any

from tempora_tta import words
from tempora_tta.analysis.answer import overview
from tempora_tta.analysis.notes import notes
from tempora_tta.store import Results


def lines(results: Results) -> list[str]:
    """Return what a run says first, as lines of text."""
    return words.first_screen(overview(results), notes(results), commands=False)


def to_html(results: Results) -> str:
    """Return the same as HTML."""
    told = overview(results)
    said = [*words.summary(told), *notes(results), words.timing(told["about"])]
    paragraphs = "".join(f"<p>{html.escape(text)}</p>" for text in said)
    facts = "<br>".join(
        html.escape(text) for text in (*words.head(told["about"]), *words.legend(told["answers"]))
    )
    body = "".join(f"<tr>{''.join(_cells(one))}</tr>" for one in told["answers"])
    heads = "".join(f"<th>{name}</th>" for name in ("", "", "best", "", "next", "", ""))
    table = f"<table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>" if body else ""
    return f'<div class="tempora"><p>{facts}</p>{table}{paragraphs}</div>'


def _cells(one: dict[str, Any]) -> list[str]:
    ranked = [(row["label"], words.value(row["utility"])) for row in one["ranking"][:2]]
    texts = [*words.setting(one["setting"]), *(text for pair in ranked for text in pair)]
    mark = words.MARKS.get(one["verdict"], "") if len(ranked) > 1 else ""
    return [f"<td>{html.escape(text)}</td>" for text in (*texts, mark)]
