"""Exact medians of many numbers by counting: vectorised passes narrow a bracket, and a few candidates are left."""

from __future__ import annotations

import math
from typing import Any

import numba

FALLBACK_PERCENT = 51
"""Where the median is 0, the lowest positive percentile from this one up takes its place."""

_FEW = 96
_PASSES = 12
_MARGIN = 0.01
_STRETCH = 32
_BEYOND = 1e290
# Up to this many numbers, one selection among all of them is faster than narrowing first.
_DIRECT = 512
_SAMPLE = 256


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _count_three(values: Any, low: float, middle: float, high: float) -> Any:
    below_low, below_middle, below_high = 0, 0, 0
    for i in range(values.size):
        value = values[i]
        below_low += value < low
        below_middle += value < middle
        below_high += value < high
    return below_low, below_middle, below_high


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _collect(values: Any, low: float, high: float, out: Any, found: int) -> Any:
    """Append the values in [low, high) to `out`; stretches without any are skipped after a vectorised look."""
    for start in range(0, values.size, _STRETCH):
        part = values[start : start + _STRETCH]
        before_low, before_high = 0, 0
        for i in range(part.size):
            before_low += part[i] < low
            before_high += part[i] < high
        if before_high > before_low:
            for i in range(part.size):
                if part[i] >= low and part[i] < high:
                    out[found] = part[i]
                    found += 1
    return found


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def select(values: Any, rank: int) -> Any:
    """Return the value with `rank` others before it (quickselect, in place: smaller ones end up left of it)."""
    left, right = 0, values.size - 1
    while left < right:
        middle = (left + right) // 2
        a, b, c = values[left], values[middle], values[right]
        pivot = max(min(a, b), min(max(a, b), c))
        i, j = left, right
        while i <= j:
            while values[i] < pivot:
                i += 1
            while values[j] > pivot:
                j -= 1
            if i <= j:
                values[i], values[j] = values[j], values[i]
                i += 1
                j -= 1
        if rank <= j:
            right = j
        elif rank >= i:
            left = i
        else:
            break
    return values[rank]


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _sample(first: Any, second: Any, third: Any, scratch: Any) -> Any:
    """Return the number of values put into `scratch`: every so-manieth of all."""
    stride = max(1, (first.size + second.size + third.size) // _SAMPLE)
    found = 0
    for values in (first, second, third):
        for i in range(stride // 2, values.size, stride):
            if values[i] < _BEYOND and found < scratch.size:
                scratch[found] = values[i]
                found += 1
    return found


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def median_of(first: Any, second: Any, third: Any, count: int, scratch: Any) -> Any:
    """Median of the `count` numbers below 1e290 in three arrays, and how it came about.

    0: it is positive. 1: it was 0, and the smallest positive percentile above it is returned. 2: all are 0; returns 1.

    Parameters
    ----------
    first, second, third : array
        Non-negative numbers; padding of 1e300 does not count.
    count : int
        How many numbers there are without the padding.
    scratch : array
        Room for `count` numbers.
    """
    upper = count // 2
    lower = upper - 1 if count % 2 == 0 else upper
    low, high, before, until = 0.0, _BEYOND, 0, count
    n0, n1, n2 = 0, 0, 0
    t0, t1, t2, last = 0.0, 0.0, 0.0, 0.0
    if count > _DIRECT:
        drawn = scratch[: _sample(first, second, third, scratch)]
        middle, reach = drawn.size // 2, drawn.size // 14
        t1 = select(drawn, middle)
        t0, t2 = select(drawn[:middle], middle - reach), select(drawn[middle:], reach)
    for step in range(_PASSES if count > _DIRECT else 0):
        if until - before <= _FEW:
            break
        if step > 0 and (low == 0.0 or high == _BEYOND):
            t1 = high / 2.0 if low == 0.0 else low * 2.0
            t0, t2 = t1 / 1.5, t1 * 1.5
        elif step > 0:
            gap, target = high - low, upper + 0.5
            t1 = low + gap * ((target - before) / (until - before))
            if n0 < n1 < n2:
                # Through the last three points: the share of numbers below t bends little within a narrow bracket.
                w0 = (target - n1) * (target - n2) / ((n0 - n1) * (n0 - n2))
                w1 = (target - n0) * (target - n2) / ((n1 - n0) * (n1 - n2))
                w2 = (target - n0) * (target - n1) / ((n2 - n0) * (n2 - n1))
                curved = w0 * t0 + w1 * last + w2 * t2
                if low < curved < high:
                    t1 = curved
            margin = gap * max(_MARGIN, 0.3 * _FEW / (until - before))
            t0, t2 = t1 - margin, t1 + margin
        last = t1
        n0, n1, n2 = _count_three(first, t0, t1, t2)
        for other in (second, third):
            m0, m1, m2 = _count_three(other, t0, t1, t2)
            n0, n1, n2 = n0 + m0, n1 + m1, n2 + m2
        for t, n in ((t0, n0), (t1, n1), (t2, n2)):
            if n <= lower and t > low:
                low, before = t, n
            if n > upper and t < high:
                high, until = t, n
    found = 0
    for values in (first, second, third):
        found = _collect(values, low, high, scratch, found)
    candidates = scratch[:found]
    median = select(candidates, upper - before)
    if lower != upper:
        largest = 0.0
        for i in range(upper - before):
            largest = max(largest, candidates[i])
        median = 0.5 * (median + largest)
    if median > 0.0:
        return median, 0
    return _smallest_positive(first, second, third, count, scratch)


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _smallest_positive(first: Any, second: Any, third: Any, count: int, scratch: Any) -> Any:
    found = 0
    for values in (first, second, third):
        for value in values:
            if 0.0 < value < _BEYOND:
                scratch[found] = value
                found += 1
    zeros = count - found
    if found > 0:
        for percent in range(FALLBACK_PERCENT, 101):
            rank = math.ceil((count - 1) * (percent / 100))
            if rank >= zeros:
                return select(scratch[:found], rank - zeros), 1
    return 1.0, 2
