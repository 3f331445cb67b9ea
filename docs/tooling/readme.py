"""Sections of the README in the pages, so that a figure is written down once: a hook of mkdocs.

A line `<!-- readme: Fast -->` becomes the text of the README's section whose title starts with that word.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError

README = Path(__file__).parents[2] / "README.md"
_MARK = re.compile(r"^<!-- readme: (.+) -->$", re.MULTILINE)


def section(title: str) -> str:
    """Return the text below a heading of the README, up to the next one."""
    found = re.search(
        rf"^## {re.escape(title)}[^\n]*\n(.*?)(?=^## |\Z)",
        README.read_text(encoding="utf-8"),
        re.MULTILINE | re.DOTALL,
    )
    if found is None:
        raise PluginError(
            f"README.md must have a section that starts with {title!r}; a page of docs/ shows it."
        )
    return found[1].strip()


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Fill in the sections of a page."""
    return _MARK.sub(lambda match: section(match[1]), markdown)
