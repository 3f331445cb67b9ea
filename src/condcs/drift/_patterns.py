"""Patterns of bets: changes of y that have opposite signs in different regions of a family.

A pattern gives every region of a family a height from -1 to 1; a bet on the pattern is that the mean score has moved by
a multiple of the height. Heights are made from the numbers of regions along the columns of the family and from nothing
else. Read `PATTERNS` first. To add a pattern, add a row to it: bets, their sums and weights, what an alarm says, and
saved states follow from the row, and the tests of `tests/drift/test_patterns.py` run on it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from condcs._core.arrays import FloatArray


@dataclass(frozen=True)
class Pattern:
    """A shape that a change may have over the regions of a family of columns of numbers."""

    kind: str
    """What an alarm calls it (`Alarm.kind`)."""

    columns: int
    """Number of columns of the families that it is for: 1 (regions are fifths) or 2 (combinations of thirds)."""

    heights: Callable[..., FloatArray]
    """From the number of regions along each column, the heights, in an array with one axis for each column.

    They lie between -1 and 1; where the height is 0, the bets on the pattern are asleep.
    """

    where_positive: str = ""
    """The regions of positive height in words, with ``{}`` for the name of each column.

    Without words an alarm names one region: of those with the largest height or depth, the one with the most rows.
    """


def _slope(regions: int) -> FloatArray:
    return np.linspace(-1.0, 1.0, regions)


def _corners(first: int, second: int) -> FloatArray:
    return _slope(first)[:, None] * _slope(second)


PATTERNS = (
    Pattern("slope", 1, _slope),
    Pattern("interaction", 2, _corners, "{} and {} are both high or both low"),
)
"""All patterns."""

_NEARLY_ZERO = 1e-9
"""Heights below this, such as the middle of a line from -1 to 1, are rounding errors of 0."""


def patterns_of(columns: int) -> tuple[Pattern, ...]:
    """Return the patterns for families of so many columns."""
    return tuple(pattern for pattern in PATTERNS if pattern.columns == columns)


def most_patterns() -> int:
    """Return the largest number of patterns that a family may have."""
    return max(Counter(pattern.columns for pattern in PATTERNS).values(), default=0)


def heights_of(patterns: tuple[Pattern, ...], parts: tuple[int, ...], n_regions: int) -> FloatArray:
    """Return the heights (regions of the family, `most_patterns`) of its patterns; 0 for those it does not have."""
    heights = np.zeros((n_regions, most_patterns()))
    for column, pattern in enumerate(patterns):
        heights[:, column] = pattern.heights(*parts).ravel()
    return np.where(np.abs(heights) > _NEARLY_ZERO, heights, 0.0)
