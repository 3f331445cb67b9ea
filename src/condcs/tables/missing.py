"""What counts as a gap."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

GAPS = frozenset(
    {"", "na", "n/a", "#n/a", "nan", "null", "none", "nat", "<na>", "inf", "-inf", "+inf", "infinity", "-infinity"}
)
"""Texts that stand for a missing value, in small letters; infinite values cannot be compared and count too."""

_LONGEST = max(map(len, GAPS)) + 4


def is_missing(cell: Any) -> bool:
    """Whether a cell is a gap: nothing, NaN or infinity, or a text that says so."""
    if cell is None:
        return True
    if isinstance(cell, str):
        if not cell or cell.isspace():
            return True
        # Most cells are decided by their last character or their length.
        return not cell[-1].isdigit() and len(cell) <= _LONGEST and cell.strip().lower() in GAPS
    return isinstance(cell, float) and not math.isfinite(cell)


def gap_marks(given: Sequence[str]) -> Callable[[Any], bool]:
    """Return what tells marks of gaps, comma-separated texts, from other cells.

    Text counts as it is written, but for blanks around it and capitals; typed numbers count by their value.
    """
    texts = {mark.strip().lower() for marks in given for mark in marks.split(",")} - {""}
    numbers = set()
    for text in texts:
        try:
            numbers.add(float(text))
        except ValueError:
            continue

    def is_mark(cell: Any) -> bool:
        if isinstance(cell, str):
            return cell.strip().lower() in texts
        return isinstance(cell, int | float) and not isinstance(cell, bool) and cell in numbers

    return is_mark
