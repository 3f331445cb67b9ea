"""Patterns of bets: changes of y that have opposite signs in different regions of a family.

A pattern gives every region of a family a height from -1 to 1; a bet on the pattern is that the mean score has moved by
a multiple of the height. Heights are made from the numbers of regions along the columns of the family and from nothing
else. They reach -1 and 1 with two regions along a column, too: columns of two values have no more. With all regions
they are nearly orthogonal to one height for all, and to those of the other patterns, which would win from the same
change otherwise.

Read `PATTERNS` first. To add a pattern, add a row to it: bets, their sums and weights, what an alarm says, and saved
states follow from the row, and the tests of `tests/drift/test_patterns.py` run on it.
"""

from __future__ import annotations

import math
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

    words: str
    """How y changes, in words."""

    n_columns: int
    """Number of columns of the families that it is for: 1 (regions are fifths) or 2 (combinations of thirds)."""

    heights: Callable[..., FloatArray]
    """Makes the heights of the number of regions along each column: an array with one axis for each column.

    They lie between -1 and 1 and reach both; where the height is 0, the bets on the pattern are asleep.
    """

    where_positive: str = ""
    """The regions of positive height in words, with ``{}`` for the name of each column.

    Without words an alarm names one region: of those with the largest height or depth, the one with the most rows.
    """


def _slope(n_regions: int) -> FloatArray:
    return np.linspace(-1.0, 1.0, n_regions)


def _corners(n_first: int, n_second: int) -> FloatArray:
    return _slope(n_first)[:, None] * _slope(n_second)


PATTERNS = (
    Pattern("slope", "opposite changes at the two ends of a column", 1, _slope),
    Pattern(
        "interaction",
        "opposite changes in opposite corners of two columns",
        2,
        _corners,
        "{} and {} are both high or both low",
    ),
)
"""All patterns."""

_NEARLY_ZERO = 1e-9
"""Heights below this, such as the middle of a line from -1 to 1, are rounding errors of 0."""


def patterns_of(n_columns: int) -> tuple[Pattern, ...]:
    """Return the patterns for families of so many columns."""
    return tuple(pattern for pattern in PATTERNS if pattern.n_columns == n_columns)


def most_patterns() -> int:
    """Return the largest number of patterns that a family may have."""
    return max(Counter(pattern.n_columns for pattern in PATTERNS).values(), default=0)


def heights_of(patterns: tuple[Pattern, ...], regions_by_column: tuple[int, ...]) -> FloatArray:
    """Return the heights of patterns in the regions of a family, given the number of regions along each column.

    One row for each region, and one column for each of `most_patterns`; 0 where a family has fewer patterns.
    """
    heights = np.zeros((math.prod(regions_by_column), most_patterns()))
    for index, pattern in enumerate(patterns):
        heights[:, index] = pattern.heights(*regions_by_column).ravel()
    return np.where(np.abs(heights) > _NEARLY_ZERO, heights, 0.0)
