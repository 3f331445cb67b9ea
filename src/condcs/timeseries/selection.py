"""Exact medians of many numbers by counting: vectorised passes narrow a bracket, and a few candidates are left."""

from __future__ import annotations

import math
from typing import Any

import numba
from numba import uintp

FALLBACK_PERCENT = 51
"""Where the median is 0, the lowest positive percentile from this one up takes its place."""

# Candidates that a narrowed bracket is expected to hold, on either side of the median.
_MANY = 64
_TRIES = 6
_STRETCH = 32
_BEYOND = 1e290
# Up to this many numbers, one selection among all of them is faster than narrowing first.
_DIRECT = 512
_SAMPLE = 256
_GOLDEN = 0.6180339887498949


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
    """Append the values in [low, high) to `out`; return how many there are now, and how many lie below `low`.

    Stretches without any are skipped after a vectorised look.
    """
    below = 0
    for start in range(0, values.size, _STRETCH):
        count = min(_STRETCH, values.size - start)
        below_low, below_high = 0, 0
        for i in range(count):
            value = values[uintp(start + i)]
            below_low += value < low
            below_high += value < high
        below += below_low
        if below_high > below_low:
            for i in range(count):
                # Without a branch: a number that does not count is overwritten by the next.
                value = values[uintp(start + i)]
                out[uintp(found)] = value
                found += (value >= low) & (value < high)
    return found, below


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
    """Fill `scratch` with a sample and return its size; from each array in proportion.

    Multiples of the golden ratio spread evenly and, unlike a fixed stride, never follow a row or diagonal of a matrix.
    """
    total = first.size + second.size + third.size
    found = 0
    for values in (first, second, third):
        for k in range(_SAMPLE * values.size // total):
            place = (k + 0.5) * _GOLDEN
            value = values[int((place - math.floor(place)) * values.size)]
            if value < _BEYOND:
                scratch[found] = value
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
        Room for `count` + 1 numbers, and at least 512.
    """
    upper = count // 2
    lower = upper - 1 if count % 2 == 0 else upper
    # The numbers of ranks `lower` and `upper` lie in [low, high), with `before` numbers below low, `until` below high.
    low, high, before, until = 0.0, _BEYOND, 0, count
    found, within = 0, False
    if count > _DIRECT:
        drawn = scratch[: _sample(first, second, third, scratch)]
        middle, reach = drawn.size // 2, drawn.size // 14
        t1 = select(drawn, middle)
        t0, t2 = select(drawn[:middle], middle - reach), select(drawn[middle:], reach)
        n0, n1, n2 = _count_three(first, t0, t1, t2)
        for other in (second, third):
            m0, m1, m2 = _count_three(other, t0, t1, t2)
            n0, n1, n2 = n0 + m0, n1 + m1, n2 + m2
        for t, n in ((t0, n0), (t1, n1), (t2, n2)):
            if n <= lower and t > low:
                low, before = t, n
            if n > upper and t < high:
                high, until = t, n
        for step in range(_TRIES):
            if low == 0.0 or high == _BEYOND or until - before <= _MANY:
                break
            gap, target = high - low, upper + 0.5
            centre = low + gap * ((target - before) / (until - before))
            if step == 0 and n0 < n1 < n2:
                # Through the three points: the share of numbers below t bends little within a narrow bracket.
                w0 = (target - n1) * (target - n2) / ((n0 - n1) * (n0 - n2))
                w1 = (target - n0) * (target - n2) / ((n1 - n0) * (n1 - n2))
                w2 = (target - n0) * (target - n1) / ((n2 - n0) * (n2 - n1))
                curved = w0 * t0 + w1 * t1 + w2 * t2
                if low < curved < high:
                    centre = curved
            margin = gap * (_MANY / (until - before)) * (step + 1)
            t0, t2 = max(low, centre - margin), min(high, centre + margin)
            found, n0 = _collect(first, t0, t2, scratch, 0)
            for other in (second, third):
                found, m0 = _collect(other, t0, t2, scratch, found)
                n0 += m0
            n2 = n0 + found
            if n0 <= lower and n2 > upper:
                before, within = n0, True
                break
            # If one of the two middle numbers is inside and the other is not, neither side can be cut off.
            if n0 > upper:
                high, until = t0, n0
            elif n2 <= lower:
                low, before = t2, n2
    if not within:
        found = 0
        for values in (first, second, third):
            found, _ = _collect(values, low, high, scratch, found)
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
