"""Sentences and commands in blocks of output wrap where the window ends: a hook of mkdocs.

Columns of a table, which blanks set apart, keep their lines and scroll together.
"""

from __future__ import annotations

import re
from typing import Any

_BLOCK = re.compile(
    r'(<div class="language-(?:text|console) highlight"><pre>.*?<code>)(.*?)(</code>)', re.DOTALL
)
_TAG = re.compile(r"<[^>]*>")


def on_page_content(html: str, **_: Any) -> str:
    """Mark the lines that may wrap."""
    return _BLOCK.sub(lambda found: found[1] + _wrapping(found[2]) + found[3], html)


def _wrapping(block: str) -> str:
    return "\n".join(
        f'<span class="sentence">{line}</span>' if _is_sentence(line) else line
        for line in block.split("\n")
    )


def _is_sentence(line: str) -> bool:
    """Whether a line of HTML has words, and no columns that blanks set apart."""
    words = _TAG.sub("", line).strip()
    return bool(words) and "  " not in words
