"""Exact medians of many numbers by counting, for the engine: compiled, because every pair of series has its own.

Vectorised passes narrow a bracket, and a few candidates are left. Numbers that are part of many medians are grouped
once by magnitude: then a count visits one group only. Medians of the differences between all pairs of sorted numbers
are found without making all differences. Medians of one sample are numpy's: `condcs._kernels.pair_medians`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import uintp

from condcs._core.arrays import FloatArray
from condcs._core.compiling import bits_of_double, inner
from condcs._kernels.pair_medians import FALLBACK_PERCENT

MEDIAN, PERCENTILE, CONSTANT = 0, 1, 2
"""Where a median came from: it was positive; it was 0, and the smallest positive percentile above it took its place;
all numbers were 0, and 1 took its place."""

WIDTH_SOURCES = 3
"""How many of these there are."""

# Candidates that a narrowed bracket is expected to hold, on either side of the median. Fewer, and it misses the median
# more often, for another pass over all numbers; more, and selecting among them takes longer.
_MANY = 64
# Narrowed brackets that are tried before all numbers of the bracket are collected: numbers whose distribution no sample
# foretells, such as many ties, would be narrowed for long.
_TRIES = 6
# Numbers that are looked at together for whether any lies in the bracket: some vectors of them, so that one test and
# branch serve many.
_STRETCH = 32
# Larger numbers are padding (1e300); squared distances are below 4e280 times the channels and the window.
_BEYOND = 1e290
# Up to this many numbers, one selection among all of them is faster than narrowing first.
_DIRECT = 512
# Numbers of the sample that brackets the median: with more the bracket is narrower, and its selection takes longer.
_SAMPLE = 256
# The bracket reaches from the sample's median by this share of the sample to either side, over two standard errors (the
# share of a sample of 256 below the median varies by 0.03).
_BRACKET = 14
LEAST_SCRATCH = 512
"""Room that `median_of` needs at least: that of a sample."""
# The golden ratio less 1: its multiples, modulo 1, are spread more evenly than those of any other number.
_GOLDEN = 0.6180339887498949

# Groups of one array. With 32 for each power of two they reach down to a 256th of the largest number; the median of
# squared distances is seldom smaller, and all that is lies in the first group. More groups take longer to count.
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
    """Copy `values`, none of them negative, to `out`, smaller groups first, and padding after them.

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
        target = ends[uintp(g)] - 1
        ends[uintp(g)] = target
        out[uintp(target)] = value
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
def _collect_grouped(values: Any, ends: Any, low: float, high: float, out: Any, count: int) -> Any:
    """As `_collect`, but look at the groups alone that reach into [low, high)."""
    first, last = _group_of(low, ends), _group_of(high, ends)
    count, below = _collect(values[ends[first] : ends[last + 1]], low, high, out, count)
    return count, below + ends[first]


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
def _collect(values: Any, low: float, high: float, out: Any, count: int) -> Any:
    """Append the values in [low, high) to the `count` in `out`; return how many these are now, and how many are lower.

    Stretches without any are skipped after a vectorised look.
    """
    below = 0
    for start in range(0, values.size, _STRETCH):
        length = min(_STRETCH, values.size - start)
        below_low, below_high = 0, 0
        for i in range(length):
            value = values[uintp(start + i)]
            below_low += value < low
            below_high += value < high
        below += below_low
        if below_high > below_low:
            for i in range(length):
                # Without a branch: a number that does not count is overwritten by the next.
                value = values[uintp(start + i)]
                out[uintp(count)] = value
                count += (value >= low) & (value < high)
    return count, below


@inner()
def _select(values: Any, rank: int) -> Any:
    """Return the value with `rank` others before it (quickselect, in place: none after it is smaller)."""
    # The value with this rank lies in values[start:end].
    start, end = 0, values.size
    while end - start > 1:
        a, b, c = values[start], values[(start + end) // 2], values[end - 1]
        pivot = max(min(a, b), min(max(a, b), c))
        # First the smaller ones to the front. Without a branch on the comparison, which no processor could foresee.
        boundary = start
        for i in range(start, end):
            value = values[uintp(i)]
            values[uintp(i)] = values[uintp(boundary)]
            values[uintp(boundary)] = value
            boundary += value < pivot
        if rank < boundary:
            end = boundary
            continue
        # Of the others, then those that equal the pivot.
        start = boundary
        for i in range(start, end):
            value = values[uintp(i)]
            values[uintp(i)] = values[uintp(boundary)]
            values[uintp(boundary)] = value
            boundary += value == pivot
        if rank < boundary:
            return pivot
        start = boundary
    return values[rank]


@inner()
def _sample(first: Any, second: Any, third: Any, scratch: Any) -> Any:
    """Fill `scratch` with a sample and return its size; from each array in proportion.

    Multiples of the golden ratio spread evenly and, unlike a fixed stride, never follow a row or diagonal of a matrix.
    """
    total = first.size + second.size + third.size
    drawn = 0
    for values in (first, second, third):
        for k in range(_SAMPLE * values.size // total):
            multiple = (k + 0.5) * _GOLDEN
            value = values[int((multiple - math.floor(multiple)) * values.size)]
            if value < _BEYOND:
                scratch[drawn] = value
                drawn += 1
    return drawn


@inner()
def _count_below(limit: float, first: Any, first_ends: Any, second: Any, second_ends: Any) -> Any:
    return _count_grouped(first, first_ends, limit) + _count_grouped(second, second_ends, limit)


@inner()
def median_of(first: Any, first_ends: Any, second: Any, second_ends: Any, third: Any, count: int, scratch: Any) -> Any:
    """Median of the `count` numbers below 1e290 in three arrays, or what takes its place, and where it came from.

    The numbers are not negative. The first two arrays are grouped (see `group`), the third may be padded with 1e300.
    `scratch` has room for `count` + 1 numbers, and at least 512.
    """
    upper = count // 2
    lower = upper - 1 if count % 2 == 0 else upper
    # The numbers of ranks `lower` and `upper` lie in [low, high).
    low, high = 0.0, _BEYOND
    below_low, below_high = 0, count
    # Three limits t, and how many numbers lie below each.
    t0, t1, t2, n0, n1, n2, step = 0.0, 0.0, 0.0, 0, 0, 0, 0
    if count > _DIRECT:
        drawn = scratch[: _sample(first, second, third, scratch)]
        middle, reach = drawn.size // 2, drawn.size // _BRACKET
        t1 = _select(drawn, middle)
        t0, t2 = _select(drawn[:middle], middle - reach), _select(drawn[middle:], reach)
        n0, n1, n2 = _count_three(third, t0, t1, t2)
        n0 += _count_below(t0, first, first_ends, second, second_ends)
        n1 += _count_below(t1, first, first_ends, second, second_ends)
        n2 += _count_below(t2, first, first_ends, second, second_ends)
        for t, n in ((t0, n0), (t1, n1), (t2, n2)):
            if n <= lower and t > low:
                low, below_low = t, n
            if n > upper and t < high:
                high, below_high = t, n
    # One call that collects, because each is compiled on its own: part of the bracket, and in the end all of it.
    while True:
        start, end = low, high
        if low > 0.0 and high < _BEYOND and below_high - below_low > _MANY and step < _TRIES:
            gap, target = high - low, upper + 0.5
            centre = low + gap * ((target - below_low) / (below_high - below_low))
            if step == 0 and n0 < n1 < n2:
                # Through the three points: the share of numbers below t bends little within a narrow bracket.
                w0 = (target - n1) * (target - n2) / ((n0 - n1) * (n0 - n2))
                w1 = (target - n0) * (target - n2) / ((n1 - n0) * (n1 - n2))
                w2 = (target - n0) * (target - n1) / ((n2 - n0) * (n2 - n1))
                curved = w0 * t0 + w1 * t1 + w2 * t2
                if low < curved < high:
                    centre = curved
            margin = gap * (_MANY / (below_high - below_low)) * (step + 1)
            start, end = max(low, centre - margin), min(high, centre + margin)
        step += 1
        collected, below = _collect_all(first, first_ends, second, second_ends, third, start, end, scratch)
        if below <= lower and below + collected > upper:
            median = _middle_of(scratch[:collected], lower - below, upper - below)
            if median > 0.0:
                return median, MEDIAN
            if collected == count:
                return _smallest_positive(scratch[:collected])
            low, high = 0.0, _BEYOND
        # If one of the two middle numbers is inside and the other is not, neither side can be cut off.
        elif below > upper:
            high, below_high = start, below
        elif below + collected <= lower:
            low, below_low = end, below + collected


@inner()
def _collect_all(
    first: Any, first_ends: Any, second: Any, second_ends: Any, third: Any, low: float, high: float, out: Any
) -> Any:
    """Collect the numbers of all three arrays in [low, high); return how many, and how many are lower."""
    # Not a plain 0, for which the functions would be compiled once more: as a constant it has a type of its own.
    count, below_first = _collect_grouped(first, first_ends, low, high, out, np.int64(0))
    count, below_second = _collect_grouped(second, second_ends, low, high, out, count)
    count, below_third = _collect(third, low, high, out, count)
    return count, below_first + below_second + below_third


@inner()
def _middle_of(values: Any, lower: int, upper: int) -> Any:
    """Mean of the values of ranks `lower` and `upper`, which are the same or neighbours; reorders the values."""
    middle = _select(values, upper)
    if lower == upper:
        return middle
    largest = values[0]
    for i in range(upper):
        largest = max(largest, values[i])
    return 0.5 * (middle + largest)


@inner()
def _smallest_positive(values: Any) -> Any:
    """Lowest positive percentile above the median, or 1 if all values are 0, and which it is. Reorders the values."""
    # The positive values, moved to the front.
    positive = 0
    for value in values:
        if value > 0.0:
            values[positive] = value
            positive += 1
    zeros = values.size - positive
    if positive > 0:
        for percent in range(FALLBACK_PERCENT, 101):
            rank = math.ceil((values.size - 1) * (percent / 100))
            if rank >= zeros:
                return _select(values[:positive], rank - zeros), PERCENTILE
    return 1.0, CONSTANT


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


# As many differences as numbers: picking among so few is cheaper than counting once more, which takes 2n steps.
_FEW_PER_NUMBER = 1
# The median difference in units of the interquartile range is 0.71 for normal numbers, and 0.59 for uniform ones.
_MEDIAN_IN_QUARTILE_RANGES = 0.68
# At their median, the share of smaller differences of normal numbers grows by 0.43 while the difference doubles.
_GROWTH_AT_MEDIAN = 0.43
# The second guess goes a tenth farther than that says, so that the wanted difference lies between the first and it.
_OVERSHOOT = 1.1


@inner()
def _ranked_difference(ordered: FloatArray, rank: int) -> tuple[float, float]:
    """Return the difference of this rank (from 0) among all pairs of numbers in ascending order, and the one before it.

    A bracket of the wanted difference, both of its ends differences that occur, is narrowed by counting: differences
    grow along a row and shrink down a column, in rounded arithmetic too, so that a count takes 2n steps.
    """
    n = ordered.size
    pairs = n * (n - 1) // 2
    low, high = 0.0, ordered[n - 1] - ordered[0]
    # How many differences are smaller than `low`, and how many are not larger than `high`.
    below, upto = 0, pairs
    step, count, middle = 0, 0, 0.0
    while low < high and upto - below > _FEW_PER_NUMBER * n:
        share = (rank + 0.5 - below) / (upto - below)
        if step == 0:
            middle = _MEDIAN_IN_QUARTILE_RANGES * (ordered[(3 * n) // 4] - ordered[n // 4])
        elif step == 1:
            middle *= 1.0 + _OVERSHOOT * (rank - count) / (_GROWTH_AT_MEDIAN * pairs)
        else:
            middle = low + (share if step % 3 < 2 else 0.5) * (high - low)
        if not low <= middle < high:
            middle = low
        step += 1
        # How many differences are at most `middle`, the largest of these, and the smallest of the others.
        count, largest, next_larger = 0, 0.0, high
        end = 1
        for i in range(n - 1):
            end = max(end, i + 1)
            while end < n and ordered[end] - ordered[i] <= middle:
                end += 1
            count += end - i - 1
            if end > i + 1:
                largest = max(largest, ordered[end - 1] - ordered[i])
            if end < n:
                next_larger = min(next_larger, ordered[end] - ordered[i])
        if count > rank:
            high, upto = largest, count
        else:
            low, below = next_larger, count
    # What the bracket holds, and the largest difference below it.
    candidates = np.empty(max(upto - below, 1))
    collected, start, predecessor = 0, 1, 0.0
    for i in range(n - 1):
        start = max(start, i + 1)
        while start < n and ordered[start] - ordered[i] < low:
            start += 1
        if start > i + 1:
            predecessor = max(predecessor, ordered[start - 1] - ordered[i])
        if low < high:
            end = start
            while end < n and ordered[end] - ordered[i] <= high:
                candidates[collected] = ordered[end] - ordered[i]
                collected += 1
                end += 1
    rank_inside = rank - below
    if low == high:
        return low, (low if rank_inside > 0 else predecessor)
    difference = _select(candidates[:collected], rank_inside)
    for i in range(rank_inside):
        predecessor = max(predecessor, candidates[i])
    return difference, predecessor


@inner()
def median_squared_difference(values: Any) -> Any:
    """Median of the squared differences over all pairs of sorted numbers, and where it came from, as in `median_of`."""
    upper, lower, percentile = _middle_differences(values)
    if upper > 0.0:
        return 0.5 * (upper * upper + lower * lower), PERCENTILE if percentile > 50 else MEDIAN
    return 1.0, CONSTANT


@inner()
def _middle_differences(values: Any) -> Any:
    """Return the two differences between sorted numbers whose mean is the median, and 50.

    Where the median is 0, the lowest positive percentile takes the place of both, with its number instead of 50; where
    all differences are 0, they are.
    """
    pairs = values.size * (values.size - 1) // 2
    upper, lower = _ranked_difference(values, pairs // 2)
    if upper > 0.0:
        return upper, (lower if pairs % 2 == 0 else upper), 50
    for percent in range(FALLBACK_PERCENT, 101):
        width, _ = _ranked_difference(values, math.ceil((pairs - 1) * (percent / 100)))
        if width > 0.0:
            return width, width, percent
    return 0.0, 0.0, 50
