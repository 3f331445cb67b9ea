"""Exact median of the squared differences between numbers: sorted, they need not be compared pair by pair."""

from __future__ import annotations

from typing import Any

from condcs.core.compiling import njit
from condcs.timeseries.selection import middle_of, select, smallest_positive

# Quantiles that stand for all numbers in the first guess, and how many of their differences there are.
_QUANTILES = 24
_GUESSES = _QUANTILES * (_QUANTILES - 1) // 2
# Where among those the median is expected: the differences within a quantile, all small, are not among them.
_EXPECTED = _QUANTILES * (_QUANTILES - 2) // 4
# How far from there to look, on either side, first and if that was too near.
_REACHES = (3, 12, 48)
_BEYOND = 1e290


@njit(nogil=True)
def merge(first: Any, second: Any, out: Any) -> None:
    """Merge two sorted arrays."""
    i, j = 0, 0
    for k in range(first.size + second.size):
        if j == second.size or (i < first.size and first[i] <= second[j]):
            out[k] = first[i]
            i += 1
        else:
            out[k] = second[j]
            j += 1


@njit(nogil=True)
def _collect_differences(values: Any, low: float, high: float, out: Any) -> Any:
    """Write the squared differences in [low, high); return how many there are, and how many lie below `low`.

    Differences to later values grow along a row and shrink down a column, in rounded arithmetic too: so where the
    wanted ones start and end only moves up from row to row.
    """
    n, found, below, start, end = values.size, 0, 0, 1, 1
    for i in range(n - 1):
        value = values[i]
        start = max(start, i + 1)
        while start < n and (values[start] - value) * (values[start] - value) < low:
            start += 1
        end = max(end, start)
        while end < n and (values[end] - value) * (values[end] - value) < high:
            end += 1
        below += start - i - 1
        for j in range(start, end):
            out[found] = (values[j] - value) * (values[j] - value)
            found += 1
    return found, below


@njit(nogil=True)
def median_squared_difference(values: Any, scratch: Any) -> Any:
    """Median of the squared differences over all pairs of sorted numbers, and how it came about.

    0: it is positive. 1: it was 0, and the smallest positive percentile above it is returned. 2: all are 0; returns 1.

    Parameters
    ----------
    values : array
        At least two numbers in ascending order.
    scratch : array
        Room for all pairs and 276 numbers more.
    """
    n = values.size
    count = n * (n - 1) // 2
    upper = count // 2
    lower = upper - 1 if count % 2 == 0 else upper
    guesses, candidates = scratch[:_GUESSES], scratch[_GUESSES:]
    if n > 2 * _QUANTILES:
        k = 0
        for i in range(_QUANTILES):
            for j in range(i + 1, _QUANTILES):
                difference = _quantile(values, j) - _quantile(values, i)
                guesses[k] = difference * difference
                k += 1
        for reach in _REACHES:
            low, high = select(guesses, _EXPECTED - reach), select(guesses, _EXPECTED + reach)
            found, before = _collect_differences(values, low, high, candidates)
            if low > 0.0 and before <= lower and before + found > upper:
                return middle_of(candidates[:found], lower - before, upper - before), 0
    found, _ = _collect_differences(values, 0.0, _BEYOND, candidates)
    median = middle_of(candidates[:found], lower, upper)
    if median > 0.0:
        return median, 0
    return smallest_positive(candidates[:found])


@njit(nogil=True)
def _quantile(values: Any, i: int) -> Any:
    return values[(2 * i + 1) * values.size // (2 * _QUANTILES)]
