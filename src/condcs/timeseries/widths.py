"""Kernel widths for collections of series: one pair for all, or the medians of each pair of series."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from condcs.core.errors import BandwidthError, BandwidthWarning, warn_caller
from condcs.kernels.bandwidths import MEDIAN_ROWS
from condcs.timeseries.collection import FloatArray
from condcs.timeseries.windowed import Windowed

SeriesBandwidth = str | float | Sequence[float]
"""A rule name, one width for windows and successors, or one for each."""

RULES = ("pair-median", "pooled-median")
_SEED = 0


@dataclass(frozen=True)
class Widths:
    """Widths on windows and on the frames that follow them, without the factor."""

    x: float
    y: float


@dataclass(frozen=True)
class Fallbacks:
    """How many widths could not be medians: ties made those 0, or all values were equal."""

    ties: int = 0
    constant: int = 0

    def __add__(self, other: Fallbacks) -> Fallbacks:
        return Fallbacks(self.ties + other.ties, self.constant + other.constant)

    def warn(self) -> None:
        """Say so, once for the whole call."""
        parts = []
        if self.ties:
            parts.append(
                f"{self.ties} median distance(s) between windows or between their successors were 0, because more than "
                "half of them are equal; the smallest positive percentile took their place"
            )
        if self.constant:
            parts.append(
                f"{self.constant} time(s) all windows, or all successors, were equal (constant series), and the width "
                "was set to 1"
            )
        if parts:
            warn_caller(f"{'; '.join(parts)}. Pass `bandwidth` as a number to choose it.", BandwidthWarning)


def check_widths(bandwidth: SeriesBandwidth, sides: list[Windowed]) -> tuple[Widths | None, Fallbacks]:
    """Return the widths that serve all pairs; None if each pair has its own."""
    if isinstance(bandwidth, str) and bandwidth == "pair-median":
        return None, Fallbacks()
    if isinstance(bandwidth, str) and bandwidth == "pooled-median":
        return _pooled_medians(sides)
    try:
        given = np.asarray(bandwidth, np.float64) if not isinstance(bandwidth, str | bool) else np.array([])
    except (TypeError, ValueError):
        given = np.array([])
    if given.shape not in ((), (2,)) or not np.all(np.isfinite(given)) or not np.all(given > 0):
        raise BandwidthError(
            '`bandwidth` must be "pair-median", "pooled-median", a positive number, or two of them (for windows and '
            f'for their successors), got {bandwidth!r}. Pass e.g. bandwidth="pair-median".'
        )
    x, y = np.broadcast_to(given, (2,)).tolist()
    return Widths(x, y), Fallbacks()


def _pooled_medians(sides: list[Windowed]) -> tuple[Widths, Fallbacks]:
    """Median distances over the windows of all series; of a subsample with a fixed seed if there are many."""
    totals = [side.total for side in sides]
    chosen: FloatArray = np.arange(sum(totals))
    if len(chosen) > MEDIAN_ROWS:
        chosen = np.sort(np.random.default_rng(_SEED).choice(len(chosen), MEDIAN_ROWS, replace=False))
    first = sides[0].rows(chosen[chosen < totals[0]])
    samples = [first] if len(sides) == 1 else [first, sides[1].rows(chosen[chosen >= totals[0]] - totals[0])]
    x, kind_x = median_width(np.concatenate([s[0] for s in samples]))
    y, kind_y = median_width(np.concatenate([s[1] for s in samples]))
    return Widths(x, y), Fallbacks([kind_x, kind_y].count(1), [kind_x, kind_y].count(2))


def median_width(values: FloatArray) -> tuple[float, int]:
    """Square root of the median squared distance over all pairs of rows, and how it came about.

    0: it is positive. 1: it was 0, and the smallest positive percentile above it is returned. 2: all rows are equal;
    returns 1.
    """
    from condcs.kernels.compiled import squared_distances
    from condcs.timeseries.selection import GROUP_ENDS, median_of

    peak = float(np.max(np.abs(values)))
    if peak == 0.0:
        return 1.0, 2
    # In units of the largest value (a power of two is exact) no square overflows.
    unit = float(2.0 ** np.floor(np.log2(peak)))
    squared = squared_distances(np.ascontiguousarray(values / unit))
    none, ends = squared[:0], np.zeros(GROUP_ENDS, np.int64)
    median, kind = median_of(none, ends, none, ends, squared, len(squared), np.empty(len(squared) + 512))
    return (1.0 if kind == 2 else float(np.sqrt(median)) * unit), int(kind)
