"""What counts as a gap."""

from __future__ import annotations

import math
from typing import Any

GAPS = frozenset(
    {"", "na", "n/a", "nan", "null", "none", "nat", "<na>", "inf", "-inf", "+inf", "infinity", "-infinity"}
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
