"""Pages of the documentation as the tests see them: front matter, and code blocks with what they should print."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(p for p in DOCS.rglob("*.md"))

_FENCE = re.compile(r"^(?P<mark>`{3,})(?P<info>[^\n`]*)\n(?P<body>.*?)^(?P=mark)[ ]*$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, its text, the line where the text starts, and the output shown right below it."""

    language: str
    text: str
    line: int
    output: str | None


def requires(page: Path) -> list[str]:
    """Return the modules that a page's code needs beyond condcs itself: `requires: [aeon]` in its front matter."""
    found = re.match(r"---\n.*?^requires: \[(.*?)\]$.*?^---$", page.read_text(encoding="utf-8"), re.M | re.S)
    return [name.strip() for name in found[1].split(",")] if found else []


def blocks(page: Path) -> Iterator[Block]:
    """Yield the fenced blocks of a page in order; a `text` block right after code is what the code prints."""
    text = page.read_text(encoding="utf-8")
    found = list(_FENCE.finditer(text))
    for match, following in zip(found, [*found[1:], None], strict=True):
        language = (match["info"].split() or [""])[0]
        output = None
        if following and following["info"].strip() == "text" and not text[match.end() : following.start()].strip():
            output = following["body"]
        yield Block(language, match["body"], text.count("\n", 0, match.start("body")) + 1, output)
