"""What reaches the terminal: in any encoding, at any width, and with text from files that can do no harm."""

from __future__ import annotations

import codecs
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from condcs._core.printable import harmless

# Signs that condcs prints, for consoles that lack them. What files bring along is shown as an escape instead: letters
# that were merely replaced could make two names look the same.
STAND_INS = {
    "→": "->", "←": "<-", "↑": "^", "↓": "v", "≤": "<=", "≥": ">=", "≠": "!=", "±": "+-", "×": "x", "−": "-",
    "–": "-", "—": "-", "…": "...", "·": ".", "•": "*", "✓": "=", "✗": "x", "▲": "^", "▼": "v", "’": "'", "“": '"',
    "”": '"', "│": "|", "┃": "|", "─": "-", "━": "-", "╸": "-", "╺": "-", "╭": "+", "╮": "+", "╰": "+", "╯": "+",
}  # fmt: skip

STAND_IN = "condcs-stand-in"
"""Name of the error handler of encodings that writes the stand-ins."""

WIDEST_WRAPPED = 16
"""Columns of words may be folded to this width before a table is taken apart."""


def foreign(text: object) -> str:
    """Return text that condcs did not write (names, cells, paths) ready to be put into rich markup, on one line."""
    return escape(harmless(str(text)))


class Terminal(Console):
    """A rich console for foreign text, dumb terminals and narrow windows.

    Every string that is printed, also as a cell of a table, goes through `harmless`; markup is the caller's business:
    see `foreign`. ``NO_COLOR`` turns off all styles, not only colours.
    """

    def __init__(self, *, stderr: bool = False) -> None:
        plain = bool(os.environ.get("NO_COLOR"))
        # Emoji codes are off: a column may be called ":warning:".
        super().__init__(stderr=stderr, emoji=False, highlight=False, color_system=None if plain else "auto")
        if self._width == 0:
            # COLUMNS=0: the width is not known. rich would fit everything into nothing.
            self._width = None

    def render_str(self, text: str, **options: Any) -> Text:
        """Turn a string into text: every string passes here, before its width is measured."""
        shown = harmless(text, keep="\n\t")
        if not self.encoding.startswith("utf"):
            # Here already, so that columns stay in line.
            shown = shown.encode(self.encoding, STAND_IN).decode(self.encoding)
        return super().render_str(shown, **options)

    def on_broken_pipe(self) -> None:
        """Let the error through: rich would end with 1, which means "changed" here."""
        raise

    def fitted(self, table: Table) -> RenderableType:
        """Return a table, or its rows as titled lines where it is too wide: a number cut short is another number."""
        needed = 0
        numbers = []
        for column in table.columns:
            widest = max((self.measure(cell).maximum for cell in column.cells), default=0)
            if column.justify == "right":
                title = self.measure(column.header)
                needed += max(widest, title.minimum) + 2
                numbers.append((column, max(widest, title.minimum), max(widest, title.maximum)))
            else:
                needed += min(widest, WIDEST_WRAPPED) + 2
        # Widths, not least ones, from which rich takes as well where words are long. Titles are folded if they must be.
        for column, least, whole in numbers:
            column.width = whole if needed + whole - least - 2 <= self.width else least
            needed += column.width - least
        return table if needed - 2 <= self.width else Group(*self._records(table))

    def _records(self, table: Table) -> Iterator[RenderableType]:
        if table.title:
            yield self._text(table.title)
        for row in zip(*(column.cells for column in table.columns), strict=True):
            yield Text("")
            for column, cell in zip(table.columns, row, strict=True):
                title, words = self._text(column.header), self._text(cell)
                if words.plain:
                    yield Text.assemble(title, ": ", words) if title.plain else words

    def _text(self, cell: RenderableType) -> Text:
        return cell if isinstance(cell, Text) else self.render_str(str(cell))

    @contextmanager
    def working(self, words: str) -> Iterator[None]:
        """Say that something takes a while: a spinner, one line on a dumb terminal, nothing in a pipe."""
        if self.is_interactive:
            with self.status(words, spinner="dots" if self.encoding.startswith("utf") else "line"):
                yield
            return
        if self.is_terminal:
            self.print(words, style="dim")
        yield


def prepare_streams() -> None:
    """Let standard output and error replace what their encoding lacks instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        # A stream may be absent (pythonw), or an object of the caller's that knows no encodings.
        with suppress(AttributeError, ValueError):
            stream.reconfigure(errors=STAND_IN)  # type: ignore[union-attr]


def abandon_output() -> None:
    """Send what is left for standard output nowhere: Python would try again at its end and exit with 120."""
    with suppress(OSError, ValueError, AttributeError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def _stand_in(error: UnicodeError) -> tuple[str | bytes, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    lost = error.object[error.start : error.end]
    return "".join(STAND_INS.get(c) or c.encode("ascii", "backslashreplace").decode("ascii") for c in lost), error.end


codecs.register_error(STAND_IN, _stand_in)
