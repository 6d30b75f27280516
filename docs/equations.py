"""Equations between `$$` as MathML, which browsers typeset without any script: a hook of MkDocs."""

from __future__ import annotations

import re
from typing import Any

from latex2mathml.converter import convert

CODE_OR_EQUATION = re.compile(r"^```.*?^```$|^\$\$\n(.*?)\n\$\$$", re.DOTALL | re.MULTILINE)


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Blocks of code are left as they are."""
    return CODE_OR_EQUATION.sub(
        lambda found: found[0] if found[1] is None else f"\n{convert(found[1], display='block')}\n", markdown
    )
