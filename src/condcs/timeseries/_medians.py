"""Exact medians of many numbers by counting: vectorised passes narrow a bracket, and a few candidates are left.

Numbers that are part of many medians are grouped once by magnitude: then a count visits one group only.
"""

from __future__ import annotations

import math
from typing import Any

from numba import uintp

from condcs._core.compiling import bits_of_double, inner

FALLBACK_PERCENT = 51
"""Where the median is 0, the lowest positive percentile from this one up is used instead."""

# Candidates that a narrowed bracket is expected to hold, on either side of the median.
_MANY = 64
_TRIES = 6
_STRETCH = 32
_BEYOND = 1e290
# Up to this many numbers, one selection among all of them is faster than narrowing first.
_DIRECT = 512
_SAMPLE = 256
_GOLDEN = 0.6180339887498949

_GROUPS = 256
# Of a double's 52 bits of mantissa, the 5 highest tell groups apart: 32 groups for each power of two.
_GROUP_SHIFT = 47
GROUP_ENDS = _GROUPS + 2
"""Room for where the groups start, for where padding starts, and for the code of the first group."""


@inner()
def _code(value: float) -> Any:
    # The bits of positive doubles, read as integers, are in the order of the doubles.
    return bits_of_double(value) >> _GROUP_SHIFT


@inner(fastmath={"nnan", "nsz"})
def _largest(values: Any) -> float:
    largest = 0.0
    for value in values:
        largest = max(largest, value if value < _BEYOND else 0.0)
    return largest


@inner()
def group(values: Any, out: Any, ends: Any) -> None:
    """Copy numbers that are not negative, smaller groups first, and padding after them.

    Group g is ``out[ends[g]:ends[g + 1]]``. The groups reach from the largest number down to a 256th of it; the first
    also holds all that is smaller.
    """
    first = _code(_largest(values)) - (_GROUPS - 1)
    ends[:] = 0
    for i in range(values.size):
        g = min(max(_code(values[uintp(i)]) - first, 0), _GROUPS)
        ends[uintp(g)] += 1
    for g in range(1, _GROUPS + 1):
        ends[g] += ends[g - 1]
    # From where each group ends, down to where it starts.
    for i in range(values.size):
        value = values[uintp(i)]
        g = min(max(_code(value) - first, 0), _GROUPS)
        place = ends[uintp(g)] - 1
        ends[uintp(g)] = place
        out[uintp(place)] = value
    ends[_GROUPS + 1] = first


@inner()
def _group_of(value: float, ends: Any) -> Any:
    return min(max(_code(value) - ends[_GROUPS + 1], 0), _GROUPS - 1)


@inner()
def _count_grouped(values: Any, ends: Any, limit: float) -> Any:
    """How many of the grouped numbers lie below `limit`."""
    g = _group_of(limit, ends)
    below = ends[g]
    for value in values[ends[g] : ends[g + 1]]:
        below += value < limit
    return below


@inner()
def _collect_grouped(values: Any, ends: Any, low: float, high: float, out: Any, found: int) -> Any:
    first, last = _group_of(low, ends), _group_of(high, ends)
    found, below = _collect(values[ends[first] : ends[last + 1]], low, high, out, found)
    return found, below + ends[first]


@inner()
def _count_three(values: Any, low: float, middle: float, high: float) -> Any:
    below_low, below_middle, below_high = 0, 0, 0
    for i in range(values.size):
        value = values[i]
        below_low += value < low
        below_middle += value < middle
        below_high += value < high
    return below_low, below_middle, below_high


@inner()
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


@inner()
def select(values: Any, rank: int) -> Any:
    """Return the value with `rank` others before it (quickselect, in place: none after it is smaller)."""
    left, right = 0, values.size
    while right - left > 1:
        a, b, c = values[left], values[(left + right) // 2], values[right - 1]
        pivot = max(min(a, b), min(max(a, b), c))
        # Without a branch on the comparison, which no processor could foresee.
        place = left
        for i in range(left, right):
            value = values[uintp(i)]
            values[uintp(i)] = values[uintp(place)]
            values[uintp(place)] = value
            place += value < pivot
        if rank < place:
            right = place
            continue
        left = place
        for i in range(left, right):
            value = values[uintp(i)]
            values[uintp(i)] = values[uintp(place)]
            values[uintp(place)] = value
            place += value == pivot
        if rank < place:
            return pivot
        left = place
    return values[rank]


@inner()
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


@inner()
def _count_below(limit: float, first: Any, first_ends: Any, second: Any, second_ends: Any) -> Any:
    return _count_grouped(first, first_ends, limit) + _count_grouped(second, second_ends, limit)


@inner()
def median_of(first: Any, first_ends: Any, second: Any, second_ends: Any, third: Any, count: int, scratch: Any) -> Any:
    """Median of the `count` numbers below 1e290 in three arrays, and how it was found.

    0: it is positive. 1: it was 0, and the smallest positive percentile above it is returned. 2: all are 0; returns 1.

    Parameters
    ----------
    first, first_ends, second, second_ends : array
        Non-negative numbers, grouped (see `group`).
    third : array
        Non-negative numbers as they come; padding of 1e300 does not count.
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
        n0, n1, n2 = _count_three(third, t0, t1, t2)
        n0 += _count_below(t0, first, first_ends, second, second_ends)
        n1 += _count_below(t1, first, first_ends, second, second_ends)
        n2 += _count_below(t2, first, first_ends, second, second_ends)
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
            found, n0 = _collect_all(first, first_ends, second, second_ends, third, t0, t2, scratch)
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
        found, _ = _collect_all(first, first_ends, second, second_ends, third, low, high, scratch)
    median = middle_of(scratch[:found], lower - before, upper - before)
    if median > 0.0:
        return median, 0
    found, _ = _collect_all(first, first_ends, second, second_ends, third, 0.0, _BEYOND, scratch)
    return smallest_positive(scratch[:found])


@inner()
def _collect_all(
    first: Any, first_ends: Any, second: Any, second_ends: Any, third: Any, low: float, high: float, out: Any
) -> Any:
    found, below = _collect_grouped(first, first_ends, low, high, out, 0)
    found, below_too = _collect_grouped(second, second_ends, low, high, out, found)
    found, below_third = _collect(third, low, high, out, found)
    return found, below + below_too + below_third


@inner()
def middle_of(values: Any, lower: int, upper: int) -> Any:
    """Mean of the values of ranks `lower` and `upper`, which are the same or neighbours; reorders the values."""
    middle = select(values, upper)
    if lower == upper:
        return middle
    largest = 0.0
    for i in range(upper):
        largest = max(largest, values[i])
    return 0.5 * (middle + largest)


@inner()
def smallest_positive(values: Any) -> Any:
    """Lowest positive percentile above the median, with 1; if all values are 0, 1 with 2. Reorders the values."""
    found = 0
    for value in values:
        if value > 0.0:
            values[found] = value
            found += 1
    zeros = values.size - found
    if found > 0:
        for percent in range(FALLBACK_PERCENT, 101):
            rank = math.ceil((values.size - 1) * (percent / 100))
            if rank >= zeros:
                return select(values[:found], rank - zeros), 1
    return 1.0, 2


# Quantiles that stand for all numbers in the first guess, and how many of their differences there are.
_QUANTILES = 24
_GUESSES = _QUANTILES * (_QUANTILES - 1) // 2
# Where among those the median is expected: the differences within a quantile, all small, are not among them.
_EXPECTED = _QUANTILES * (_QUANTILES - 2) // 4
# How far from there to look, on either side, first and if that was too near.
_REACHES = (3, 12, 48)


@inner()
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


@inner()
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


@inner()
def median_squared_difference(values: Any, scratch: Any) -> Any:
    """Median of the squared differences over all pairs of sorted numbers, and how it was found.

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


@inner()
def _quantile(values: Any, i: int) -> Any:
    return values[(2 * i + 1) * values.size // (2 * _QUANTILES)]
