"""Docstrings for the site: formulas in the markup of the pages, and public names as links to their entries."""

from __future__ import annotations

import re
import sys
import textwrap
from pathlib import Path
from typing import Any

import griffe

sys.path.insert(0, str(Path(__file__).parent))
from exports import all_exports

_BLOCK = re.compile(r"^([ ]*)\.\. math::[ ]*(.*(?:\n(?:\1[ ]+\S.*))*)", re.MULTILINE)
_INLINE = re.compile(r":math:`([^`]+)`")
_NAME = re.compile(r"(?<![`\[])`([A-Za-z_][\w.]*)`(?![`\]])")


def to_markdown(text: str, names: dict[str, str], own: str = "") -> str:
    """Turn the markup of our docstrings into that of the pages; `own` is the name described, which needs no link."""

    def block(match: re.Match[str]) -> str:
        body = " ".join(textwrap.dedent(match[2]).split())
        return f"\n{match[1]}$$\n{match[1]}{body}\n{match[1]}$$\n"

    def link(match: re.Match[str]) -> str:
        known = match[1] in names and match[1] != own
        return f"[`{match[1]}`][{names[match[1]]}]" if known else match[0]

    return _NAME.sub(link, _INLINE.sub(lambda m: f"${m[1]}$", _BLOCK.sub(block, text)))


def kinds(text: str) -> dict[str, str]:
    """Map the names of entries to their kinds, as in "xp, yp : array, shape (n, d)"."""
    found = re.findall(r"^([*\w, ]+?) : (.+)$", textwrap.dedent(text), re.MULTILINE)
    return {name.strip(): kind for names, kind in found for name in names.split(",")}


class Docstrings(griffe.Extension):
    """Rewrites every docstring as it is read."""

    def __init__(self) -> None:
        super().__init__()
        self._names = all_exports()

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rewrite the docstring of a module, class, function or attribute."""
        if obj.docstring is not None:
            # As written: the parser would take {"a", "b"} for an expression and print it as a tuple.
            obj.extra["condcs"]["kinds"] = kinds(obj.docstring.value)
            obj.docstring.value = to_markdown(obj.docstring.value, self._names, obj.name)
